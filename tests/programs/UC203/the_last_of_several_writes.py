import torch
from torch import nn

torch.manual_seed(0)

h = torch.randn(4, 6, requires_grad=True).exp()
parts = h.split(3, dim=1)  # made
for i in range(2):
    h[i] = 0.
h[3].mul_(2)  # write
y = parts[1].sum()  # needed
