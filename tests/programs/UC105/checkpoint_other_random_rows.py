# source: what torch/utils/checkpoint.py refuses without a line
# note: the seed is one by which both runs take another number of rows
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
x = torch.randn(3, 4, requires_grad=True)


def block(x):
    rows = torch.rand(3) > 0.5
    return x[rows].exp().square().sum()  # saved


checkpoint(block, x, use_reentrant=False, preserve_rng_state=False).backward()  # needed
