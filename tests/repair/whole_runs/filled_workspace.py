import torch

space = torch.empty(3)


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.exp = space
        torch.exp(x, out=ctx.exp)
        return torch.log1p(ctx.exp)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.exp / (1 + ctx.exp)


w = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
Softplus.apply(Softplus.apply(w)).sum().backward()
print(w.grad, space)
