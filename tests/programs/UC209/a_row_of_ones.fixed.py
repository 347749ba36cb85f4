import torch
from torch.func import vmap

torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)


def padded(x):
    out = x.new_ones(4)
    out[:3] = x
    return out


vmap(padded)(x).exp().sum().backward()
