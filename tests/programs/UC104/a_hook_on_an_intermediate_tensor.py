# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, b = leaf(), leaf()
q, p = b * 1, a * 1
y = p + q
def hook(g):
    g.zero_()  # write
p.register_hook(hook)
(y * y).sum().backward()  # needed
gradient = b.grad
