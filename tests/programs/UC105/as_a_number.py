# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
c = torch.ones(())
y = checkpoint(lambda t: (t * c.item()).exp(), x, use_reentrant=False)  # saved
c += 1  # write
y.sum().backward()  # needed
gradient = x.grad
