# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(x, s):
        return x * s
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.s = inputs[1]  # saved
    @staticmethod
    def backward(ctx, g):
        return g * ctx.s, None
x, s = leaf(), torch.ones(4)
y = Scale.apply(x, s)
s.add_(1)  # write
y.sum().backward()  # needed
gradient = x.grad
