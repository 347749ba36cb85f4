# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
c = torch.ones(4)
def segment(t):
    scale = (t + c).exp()
    mean = scale.detach()
    rows = torch.stack([t, t * t])
    return torch.nn.functional.batch_norm(rows, mean, mean + 1, training=True, momentum=0.0) + scale
y = checkpoint(segment, x, use_reentrant=False)  # saved
c += 1  # write
y.sin().sum().backward()  # needed
gradient = x.grad
