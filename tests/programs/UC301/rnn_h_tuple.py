import torch
from torch import nn

torch.manual_seed(0)

lstm = nn.LSTM(2, 3)
h = None
for _ in range(2):
    out, h = lstm(torch.randn(4, 1, 2), h)  # saved
    out.sum().backward()  # needed freed
