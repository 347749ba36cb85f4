import torch
from torch import nn

torch.manual_seed(0)

table = torch.zeros(3, 2, requires_grad=True)  # made
for i in range(3):
    table[i] = torch.ones(2) * i  # write
