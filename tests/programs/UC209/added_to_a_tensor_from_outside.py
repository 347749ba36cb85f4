# source: the limits of vmap in https://docs.pytorch.org/docs/stable/func.ux_limitations.html
import torch
from torch.func import vmap

torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)
total = torch.zeros(3)  # made


def added(x):
    total.add_(x)  # write
    return total * x


vmap(added)(x).sum().backward()
