# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.s = torch.empty(4)
        ctx.s.fill_(2)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * ctx.s
x = leaf()
Scale.apply(x).sum().backward()
gradient = x.grad
