# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
a, w = leaf(), leaf()
given = torch.ones(4, 1)
penalty = (given.view(4) * w).sum()
y = a * 2
y.register_hook(lambda g: g.mul_(2))
y.view(4, 1).backward(given)
gradient = a.grad
