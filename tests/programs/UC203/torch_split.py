import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
gate, val = torch.split(h, 2, dim=1)  # made
gate.sigmoid_()  # write
