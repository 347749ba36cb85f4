# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g.mul_(2)  # write
a = leaf()
y = Double.apply(a) + a
(y * y).sum().backward()  # needed
gradient = a.grad
