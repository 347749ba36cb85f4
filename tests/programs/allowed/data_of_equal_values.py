# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
w = leaf()
x = leaf()
y = w * x
w.data = w.detach().clone()
y.sum().backward()
gradient = x.grad
