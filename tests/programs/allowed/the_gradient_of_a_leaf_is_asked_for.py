# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
x = leaf()
x.register_hook(lambda g: g.mul_(2))
(gradient,) = torch.autograd.grad((x * x).sum(), [x])
