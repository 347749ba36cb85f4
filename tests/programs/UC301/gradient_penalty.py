import torch
from torch import nn

torch.manual_seed(0)

net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
x = torch.randn(4, 2, requires_grad=True)
out = net(x).sum()  # saved
g, = torch.autograd.grad(out, x)  # freed
out.backward()  # needed
