# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s  # saved
        return x * s
    @staticmethod
    def backward(ctx, g):
        return g * ctx.s, None
scale = Scale.apply
x, s = leaf(), torch.ones(4)
y = scale(x, s * torch.arange(4))
s = y.grad_fn.s
s.data = torch.zeros(1).expand(4)  # write
y.sum().backward()  # needed
gradient = x.grad
