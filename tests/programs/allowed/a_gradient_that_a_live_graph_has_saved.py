# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, w = leaf(), leaf()
y = a * 2
def penalize(g):
    global penalty
    with torch.enable_grad():
        penalty = (g * w).sum()
y.register_hook(penalize)
y.register_hook(lambda g: g.mul_(2))
(y * y).sum().backward()
gradient = a.grad
