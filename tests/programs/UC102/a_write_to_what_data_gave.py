# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
w = leaf()
x = leaf()
y = w * x  # saved
flat = w.detach().clone()
w.data = flat
flat.mul_(3)  # write
y.sum().backward()  # needed
gradient = x.grad
