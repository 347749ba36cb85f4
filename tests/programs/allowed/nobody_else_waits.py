# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a = leaf()
def hook(g):
    g.mul_(2)
a.register_hook(hook)
(a * a).sum().backward()
gradient = a.grad
