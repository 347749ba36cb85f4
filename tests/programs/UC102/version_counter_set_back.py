# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
y = x.exp()  # saved
counter = torch.autograd._unsafe_preserve_version_counter(y)
with torch.no_grad():
    y.zero_()  # write
counter.__exit__()
y.sum().backward()  # needed
gradient = x.grad
