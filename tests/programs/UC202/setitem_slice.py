import torch
from torch import nn

torch.manual_seed(0)

x = torch.randn(4, requires_grad=True)  # made
y = x * 2
x[0] = 5.  # write
