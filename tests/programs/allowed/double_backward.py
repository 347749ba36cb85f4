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
        return g * 2
a = leaf()
y = Double.apply(a) + a
(gradient,) = torch.autograd.grad((y * y).sum(), a, create_graph=True)
(gradient,) = torch.autograd.grad((gradient * gradient).sum(), a)
