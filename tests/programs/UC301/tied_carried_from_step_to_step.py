# theme: what ties
# open: saved needed freed
# says: `net.state` ties

import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.GRUCell(3, 4), torch.zeros(2, 4)
    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state.sum()
net = Net()
for x in torch.randn(2, 2, 3):
    net(x).backward()
