# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
norm = torch.nn.InstanceNorm1d(2, track_running_stats=True)
y = checkpoint(norm, x.view(1, 2, 2) * torch.ones(2, 1, 1), use_reentrant=False)
y.sin().sum().backward()
gradient = x.grad
