import torch
from torch import nn

torch.manual_seed(0)

h = torch.randn(4, 6, requires_grad=True).exp()
with torch.no_grad():
    first = h[0]  # made
h.mul_(2)  # write
y = first * torch.ones(6, requires_grad=True)  # needed
