# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = torch.zeros(())
        self.net = torch.nn.Linear(4, 4)
    def forward(self, t):
        self.calls += 1
        return self.net(t).exp()
net = Counted()
checkpoint(net, x, use_reentrant=False).sum().backward()
gradient = x.grad
