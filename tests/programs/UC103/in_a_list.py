# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *factors):
        ctx.factors = list(factors)  # saved
        return x * factors[0] * factors[1]
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.factors
        return g * a * b, None, None
x, s = leaf(), torch.ones(4)
y = Scale.apply(x, torch.ones(4), s)
s.fill_(2)  # write
y.sum().backward()  # needed
gradient = x.grad
