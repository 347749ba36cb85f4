# theme: what ties
# open: saved needed freed
# says: Linear (its addmm) is part of

import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.hidden = nn.LSTM(3, 4), None
    def forward(self, x):
        out, self.hidden = self.lstm(x, self.hidden)
        return out.sum()

net, first = Net(), nn.Linear(3, 3)
x = first(torch.randn(5, 1, 3))
for _ in range(2):
    net.hidden = None
    net(x).backward()
