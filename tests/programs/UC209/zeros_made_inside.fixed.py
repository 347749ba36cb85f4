import torch
from torch.func import vmap

torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)


def clipped(x):
    out = x.new_zeros(3)
    out.copy_(x)
    return out.clamp(0)


vmap(clipped)(x).sum().backward()
