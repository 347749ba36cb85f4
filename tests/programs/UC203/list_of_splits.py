import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
parts = list(h.split(2, 1))
parts[1].mul_(2)  # write
