import torch
from torch import nn

torch.manual_seed(0)

net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 1))
x = torch.randn(2, 4).requires_grad_()  # made
net(x).sum().backward()  # write
