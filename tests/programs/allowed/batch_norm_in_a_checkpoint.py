# theme: past the version counter

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout())
x = torch.arange(12.0).reshape(4, 3).requires_grad_()
for _ in range(3):
    checkpoint(net, x, use_reentrant=False).pow(2).sum().backward()
gradient = x.grad
