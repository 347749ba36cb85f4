# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a = leaf()
p = torch.complex(a, a)
p.register_hook(lambda g: g.mul_(2))
(p.real * 2).sum().backward()
gradient = a.grad
