# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.inner = x.detach().requires_grad_()
            ctx.y = ctx.inner.exp()
        return ctx.y.detach().clone()
    @staticmethod
    def backward(ctx, g):
        return torch.autograd.grad(ctx.y, ctx.inner, g)[0]
x = leaf()
h = x * 1
y = Local.apply(h)
h.relu_()
(y + h).sum().backward()
gradient = x.grad
