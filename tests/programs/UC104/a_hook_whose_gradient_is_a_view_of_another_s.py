# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, b = leaf(), leaf(1)
q, p = a * 1, b * 1
def hook(g):
    return g.mul_(2)  # write
p.register_hook(hook)
y = q.sum() + p.sum()
(y * y).backward()  # needed
gradient = a.grad
