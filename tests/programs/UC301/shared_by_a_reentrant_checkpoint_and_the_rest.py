# says: exp is part of a checkpoint's graph and of the one around it, and the backward of one of them freed it
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
x = torch.randn(3, requires_grad=True)
h = w.exp()  # saved


def block(x):
    return (x * h).sin()


y = checkpoint(block, x, use_reentrant=True)
(y * h).sum().backward()  # freed needed
