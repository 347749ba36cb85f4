# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
scratch = torch.zeros(4)
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scratch = scratch
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return ctx.scratch.copy_(g).mul_(2).clone()
x = leaf()
for _ in range(2):
    y = Scale.apply(x)
    scratch.add_(1)
    y.sum().backward()
gradient = x.grad
