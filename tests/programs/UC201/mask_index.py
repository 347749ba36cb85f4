import torch
from torch import nn

torch.manual_seed(0)

x = torch.randn(4, requires_grad=True)  # made
x[x < 0] = 0  # write
