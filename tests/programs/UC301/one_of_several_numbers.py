import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
base = w * 2
a, b = base + 1, base * 3
other = torch.randn(3, requires_grad=True) * 5
a.sum().backward()  # freed
(other.sum() + b.sum()).backward()  # needed
