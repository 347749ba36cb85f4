# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a = leaf(1)
p = a * 1
p.register_hook(lambda g: g.mul_(2))
(p.sum() * 2).backward()
gradient = a.grad
