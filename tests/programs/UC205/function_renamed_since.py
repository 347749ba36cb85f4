import torch
from torch import nn

torch.manual_seed(0)

class Id(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return g
def one(x):
    return Id.apply(x)
def other(x):
    return Id.apply(x)
def run(h):
    f = one
    y = f(h)
    f = other
    y.mul_(2)  # write
run(nn.Linear(2, 2)(torch.ones(1, 2)))
