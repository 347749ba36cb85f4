# theme: what ties
# open: saved needed freed
# says: `net.table` ties

import torch
from torch import nn

torch.manual_seed(0)

class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.rand(9, 3))
        self.gain = nn.Parameter(torch.ones(3))
    def forward(self, x):
        rows = self.table[: len(x)]
        rows *= self.gain
        return x + rows

net = Positions()
for x in torch.randn(2, 5, 3):
    # cut
    net(x).square().sum().backward()
