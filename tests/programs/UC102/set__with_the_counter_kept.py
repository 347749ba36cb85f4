# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
w = leaf()
x = torch.ones(4)
y = w * x  # saved
with torch.autograd._unsafe_preserve_version_counter(x):
    x.set_(torch.full((4,), 5.0))  # write
y.sum().backward()  # needed
gradient = w.grad
