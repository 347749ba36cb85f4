import torch
from torch import nn

torch.manual_seed(0)

class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -g
h = nn.Linear(2, 2)(torch.randn(3, 2))
y = Id.apply(h)  # made
z = y[:, :1]
z += 1  # write
