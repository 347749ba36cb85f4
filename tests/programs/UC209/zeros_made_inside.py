# source: the limits of vmap in https://docs.pytorch.org/docs/stable/func.ux_limitations.html
import torch
from torch.func import vmap

torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)


def clipped(x):
    out = torch.zeros(3)  # made
    out.copy_(x)  # write
    return out.clamp(0)


vmap(clipped)(x).sum().backward()
