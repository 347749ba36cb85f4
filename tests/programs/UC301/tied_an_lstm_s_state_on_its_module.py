# theme: what ties
# open: saved needed freed
# says: `net.hidden` ties

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

net = Net()
for x in torch.randn(2, 5, 1, 3):
    # cut
    net(x).backward()
