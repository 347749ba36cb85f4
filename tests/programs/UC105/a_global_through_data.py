# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
c = torch.ones(4)
def segment(t):
    return (t * c).sin()
y = checkpoint(segment, x, use_reentrant=False)  # saved
c.data.zero_()  # write
y.sum().backward()  # needed
gradient = x.grad
