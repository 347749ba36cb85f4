# note: a checkpoint repeats the random numbers of torch alone
import random

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(9)
x = torch.randn(3, 4, requires_grad=True)
random.seed(1)


def block(x):
    if random.random() < 0.5:
        x = x.exp()  # saved
    return x.sin().sum()


checkpoint(block, x, use_reentrant=False).backward()  # needed
