import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
y = w.exp().sum()  # saved
y.backward(retain_graph=True)
y.backward()  # freed
y.backward()  # needed
