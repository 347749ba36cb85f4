import torch
from torch import nn

torch.manual_seed(0)

x = torch.randn(3, 2, requires_grad=True) * 1
for row in x.unbind(0):  # made
    row.mul_(2)  # write
