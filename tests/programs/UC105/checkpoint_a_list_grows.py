# source: what torch/utils/checkpoint.py refuses without a line
# says: the recomputation of a checkpoint saves a float32 tensor of shape 6x4 where its forward saved a float32 tensor of shape 3x4
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
x = torch.randn(3, 4, requires_grad=True)
cache = []


def block(x):
    cache.append(x)
    return torch.cat(cache).sin().sum()  # saved


checkpoint(block, x, use_reentrant=False).backward()  # needed
