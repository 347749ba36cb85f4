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
        return Id.apply(x)
net = nn.Sequential(nn.Linear(2, 2), Rev(), nn.ReLU(inplace=True))
net(torch.randn(3, 2))  # write
