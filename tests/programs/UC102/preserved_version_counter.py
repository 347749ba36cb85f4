# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
y = x.exp()  # saved
with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(y):
    y.zero_()  # write
y.sum().backward()  # needed
gradient = x.grad
