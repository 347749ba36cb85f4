# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
kept = []
a = leaf()
b = a * 1
def hook(g):
    kept.append(g)
    g.mul_(2)
b.register_hook(hook)
(b * b).sum().backward()
gradient = a.grad
