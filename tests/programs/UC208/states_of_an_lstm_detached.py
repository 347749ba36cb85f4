import torch
from torch import nn

torch.manual_seed(0)

rnn = torch.nn.LSTM(4, 8, num_layers=2)
out, (h, c) = rnn(torch.randn(5, 2, 4))
top = h.select(0, -1)  # made
torch.detach_(top)  # write
