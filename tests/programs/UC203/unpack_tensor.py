import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 2)(torch.randn(2))
a, b = h  # made
a += 1  # write
