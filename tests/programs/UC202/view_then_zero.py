import torch
from torch import nn

torch.manual_seed(0)

x = nn.Parameter(torch.randn(2, 2))
row = x[0]  # made
row.zero_()  # write
