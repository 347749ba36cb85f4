# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return torch.full_like(ctx.s, 2) * g / len(ctx.s) * ctx.s.shape[0], None
x, s = leaf(), torch.ones(4)
y = Scale.apply(x, s)
s[0] = 3
y.sum().backward()
gradient = x.grad
