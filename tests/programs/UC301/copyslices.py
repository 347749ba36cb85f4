import torch
from torch import nn

torch.manual_seed(0)

w = torch.randn(3, requires_grad=True)
x = w * 1
x[0] = x[1].exp()  # saved
for k in range(2):
    (x * x).sum().backward()  # needed freed
