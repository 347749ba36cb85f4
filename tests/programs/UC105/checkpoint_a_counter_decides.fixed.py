import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
x = torch.randn(3, 4, requires_grad=True)
steps = torch.zeros((), dtype=torch.long)


def block(x, first):
    y = x.sin() if first else x * 2
    return (y.exp() * y).sum()


first = bool(steps == 0)
steps.add_(1)
checkpoint(block, x, first, use_reentrant=False).backward()
