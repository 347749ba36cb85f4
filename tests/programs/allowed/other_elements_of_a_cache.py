# theme: kept on ctx

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cache, at):
        ctx.cache, ctx.at = cache, at
        cache[at] = x.detach()
        return x * cache[at]
    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.cache[ctx.at], None, None
x, cache = leaf(), torch.zeros(3, 4)
sum(Scale.apply(x, cache, at).sum() for at in range(3)).backward()
gradient = x.grad
