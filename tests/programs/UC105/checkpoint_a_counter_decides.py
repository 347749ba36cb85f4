# source: what torch/utils/checkpoint.py refuses without a line
# says: the recomputation of a checkpoint goes another way than its forward
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
x = torch.randn(3, 4, requires_grad=True)
steps = torch.zeros((), dtype=torch.long)


def block(x):
    first = bool(steps == 0)
    steps.add_(1)
    y = x.sin() if first else x * 2  # saved
    return (y.exp() * y).sum()


checkpoint(block, x, use_reentrant=False).backward()  # needed
