import torch
from torch import nn

torch.manual_seed(0)

h = torch.randn(4, 6, requires_grad=True).exp()
a, b = h.unbind(1)[:2]  # made
h.mul_(2)
torch.autograd.graph.increment_version(h)
y = a * b  # needed
