import torch
from torch import nn

torch.manual_seed(0)

class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
    @staticmethod
    def backward(ctx, g):
        return -g
def reverse(x):
    return Id.apply(x)  # made
h = nn.Linear(2, 2)(torch.randn(3, 2))
z = reverse(h)
z.mul_(2)  # write
