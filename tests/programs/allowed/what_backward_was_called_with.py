# theme: shared gradients

import torch
torch.manual_seed(0)
def leaf(n=4):
    return torch.linspace(0.1, 1.0, n).requires_grad_()
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g.mul_(2)
a = leaf()
module = torch.nn.Identity()
def hook(module, gradients, *more):
    gradients[0].mul_(2)
module.register_full_backward_pre_hook(hook)
module.register_full_backward_hook(hook)
y = a * 2
y.register_hook(lambda g: hook(None, [g]))
torch.autograd.backward([y, module(a), Double.apply(a)], [torch.ones(4), torch.ones(4), torch.ones(4)])
gradient = a.grad
