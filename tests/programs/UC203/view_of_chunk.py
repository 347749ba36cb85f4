import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
a, b = h.chunk(2, dim=1)  # made
a[:, 0] = 0  # write
