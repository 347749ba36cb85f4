# source: the limits of vmap in https://docs.pytorch.org/docs/stable/func.ux_limitations.html
import torch
from torch.func import vmap

torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)


def padded(x):
    out = torch.ones(4)  # made
    out[:3] = x  # write
    return out


vmap(padded)(x).exp().sum().backward()
