# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
net = torch.nn.Linear(4, 4)
y = checkpoint(lambda t: net(t).exp(), x, use_reentrant=False)  # saved
net.weight.data = torch.zeros(4, 4)  # write
y.sum().backward()  # needed
gradient = x.grad
