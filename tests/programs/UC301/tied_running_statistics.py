# theme: what ties
# open: saved needed freed
# says: `net[1].mean` and `net[1].var` tie

import torch
from torch import nn

torch.manual_seed(0)

class RunningNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))
    def forward(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        self.var.mul_(0.9).add_(0.1 * x.var(0))
        return (x - self.mean) / self.var

net = nn.Sequential(nn.Linear(2, 3), RunningNorm())
for x in torch.randn(2, 5, 2):
    # cut
    net(x).square().sum().backward()
