# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
h = x * 2
def hook(g):
    return g.mul_(2)  # write
h.register_hook(hook)
_, gradient = torch.autograd.grad((h * h).sum(), [x, h])  # needed
