"""Sizes that are symbols while torch traces: of a custom operator, of a Function and of a write."""

import torch
from observed import observed
from torch.fx.experimental.proxy_tensor import make_fx


@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


twice.register_autograd(lambda ctx, gradient: gradient * 2)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def gradient(x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(Twice.apply(x).sum(), x)[0]


def written(x):
    y = x.sin()
    y.add_(1)
    return y.cos()


def step():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: twice(x).exp().sum(), backend="aot_eager", dynamic=True)
    for length in (3, 5):
        x = torch.ones(length, requires_grad=True)
        compiled(x).backward()
        print(x.grad)
    for traced in (gradient, written):
        print(make_fx(traced, tracing_mode="symbolic")(torch.ones(3, 5)).code)


observed(step)
