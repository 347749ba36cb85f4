# theme: what ties
# open: saved needed freed
# says: `state` ties

import torch
from torch import nn

torch.manual_seed(0)

lstm, state = nn.LSTM(3, 4), None
for x in torch.randn(2, 5, 1, 3):
    # cut
    out, state = lstm(x, state)
    out.sum().backward()
