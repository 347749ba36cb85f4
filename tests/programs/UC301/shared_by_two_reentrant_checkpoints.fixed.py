import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
x = torch.randn(3, requires_grad=True)
h = w.exp()


def block(x, pair):
    return (x * pair[0]).sin()


for _ in range(2):
    x = checkpoint(block, x, (h, 2), use_reentrant=False)
x.sum().backward()
