# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
y = x.exp()  # saved
with torch.no_grad():
    y.zero_()  # write
torch._C._autograd._unsafe_set_version_counter((y,), (0,))
y.sum().backward()  # needed
gradient = x.grad
