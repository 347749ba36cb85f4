# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, b = leaf(), leaf()
y = a + b
def hook(g):
    g.clamp_(-1000, 1000)
a.register_hook(hook)
(y * y).sum().backward()
gradient = b.grad
