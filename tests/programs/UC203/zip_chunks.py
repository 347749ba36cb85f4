import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
for s, part in zip((1., 2.), h.split(2, 1)):  # made
    part.mul_(s)  # write
