# theme: recomputation

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
from torch.utils.checkpoint import checkpoint
x = leaf()
class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 4))
        self.net = torch.nn.Linear(4, 4)
    def forward(self, t, at):
        self.rows[at] = t.detach()
        return self.net(self.rows[: at + 1]).sin().sum() + t.sum()
net = Cached()
total = 0
for at in range(4):
    total = total + checkpoint(net, x * (at + 1), at, use_reentrant=False)
total.backward()
gradient = net.net.weight.grad
