# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.inner = x.detach().clone().requires_grad_()
            ctx.y = ctx.inner * 3
        return ctx.y.detach()
    @staticmethod
    def backward(ctx, g):
        ctx.y.backward(g)
        return ctx.inner.grad
x = leaf()
y = torch.relu_(Local.apply(x * 1))
y.sum().backward()
gradient = x.grad
