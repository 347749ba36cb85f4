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
class Rev(nn.Module):
    def forward(self, x):
        return Id.apply(x)  # made
rev = Rev()
h = nn.Linear(2, 2)(torch.randn(3, 2))
z = rev(h)
z += 1  # write
