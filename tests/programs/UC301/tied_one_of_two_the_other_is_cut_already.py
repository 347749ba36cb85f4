# theme: what ties
# open: saved needed freed
# says: `net.h` ties

import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.h, self.c = nn.LSTMCell(3, 4), torch.zeros(2, 4), torch.zeros(2, 4)
    def forward(self, x):
        self.h, self.c = self.cell(x, (self.h, self.c.detach()))
        return self.h.sum()
net = Net()
for x in torch.randn(2, 2, 3):
    # cut
    net(x).backward()
