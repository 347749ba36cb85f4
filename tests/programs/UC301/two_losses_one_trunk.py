import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
h = w.tanh()  # saved
a = h.sum()
b = (h * 2).sum()
a.backward()  # freed
b.backward()  # needed
