# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, b = leaf(), leaf()
y = a + b
def hook(g):
    g.data.mul_(2)  # write
a.register_hook(hook)
(y * y).sum().backward()  # needed
gradient = b.grad
