import torch
from torch import nn

torch.manual_seed(0)

h = nn.Linear(2, 4)(torch.randn(3, 2))
with torch.no_grad():
    v = h.view(-1)  # made
v[0] = 1  # write
