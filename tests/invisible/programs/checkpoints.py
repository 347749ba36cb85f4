"""A, C: a checkpoint hands backward the same tensors, and reads none so that the program's modes see it."""

import torch
from observed import observed
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint


class Logged(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        print(function.__name__)
        return function(*args, **(kwargs or {}))


class Scaled(torch.autograd.Function):
    """A product that prints whether backward is handed the factor itself, which may be what is saved last."""

    @staticmethod
    def forward(ctx, x, w, last):
        ctx.save_for_backward(*((x, w) if last else (w, x)))
        return x * w

    @staticmethod
    def backward(ctx, gradient):
        tensors = ctx.saved_tensors
        print([tensor is factor for tensor in tensors], [tensor.requires_grad for tensor in tensors])
        return gradient * factor, None, None


factor = torch.tensor([2.0, 3.0])


def steps():
    x = torch.ones(2, requires_grad=True)
    for reentrant in (False, True):
        for last in (False, True):
            checkpoint(Scaled.apply, x, factor, last, use_reentrant=reentrant).sum().backward()
        with Logged():
            checkpoint(lambda x: (x * factor).exp(), x, use_reentrant=reentrant).sum().backward()
    print(x.grad)


observed(steps)
