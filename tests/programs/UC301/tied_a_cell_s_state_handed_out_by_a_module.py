# theme: what ties
# open: saved needed freed
# says: `state` ties

import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
    def forward(self, x, before):
        h, c = self.cell(x, before)
        return h.sum(), (h, c)
net, state = Net(), (torch.zeros(2, 4), torch.zeros(2, 4))
for x in torch.randn(2, 2, 3):
    # cut
    loss, state = net(x, state)
    loss.backward()
