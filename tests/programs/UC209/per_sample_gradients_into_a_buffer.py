# source: the limits of vmap in https://docs.pytorch.org/docs/stable/func.ux_limitations.html
import torch
from torch.func import vmap

torch.manual_seed(0)
x = torch.randn(2, 3, requires_grad=True)


def loss(x):
    seen = torch.full((3,), -1.0)  # made
    seen += x  # write
    return seen.square().sum()


vmap(torch.func.grad(loss))(x.detach())
