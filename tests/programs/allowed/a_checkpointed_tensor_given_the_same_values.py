# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
c = torch.ones(4)
y = checkpoint(lambda t: (t * c).exp(), x, use_reentrant=False)
c.mul_(1)
y.sum().backward()
gradient = x.grad
