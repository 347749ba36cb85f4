import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
v = torch.randn(3, requires_grad=True)
y = (w.exp() * v.sin()).sum()  # saved
g, = torch.autograd.grad(y, w)  # freed
h, = torch.autograd.grad(y, v)  # needed
