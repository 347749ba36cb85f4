"""A node's own result is no cycle, and what only a graph holds lives as long as that."""

import contextlib
import weakref

import torch
from observed import observed
from torch.utils._python_dispatch import TorchDispatchMode


class Mark:
    pass


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def of_a_written_view(around):
    """Its node is made again, after that of the operation that reads it."""
    x = torch.ones(3, requires_grad=True)
    a = x * 2
    v = a[:]
    a.add_(1)
    with around:
        y = v.relu()
    mark = Mark()
    y.grad_fn.metadata["mark"] = mark
    return weakref.ref(mark)


class Named(torch.Tensor):
    pass


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def of_a_class(kind):
    """A custom Function's own result, which is a view if the program has a class of its own."""
    result = Exponential.apply(torch.ones(3).as_subclass(kind).requires_grad_())
    return weakref.ref(result)


def dropped():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.tag = "program's"
    return y * y, weakref.ref(y)


def step():
    print(of_a_written_view(contextlib.nullcontext())() is None, of_a_written_view(Mode())() is None)
    print(of_a_class(torch.Tensor)() is None, of_a_class(Named)() is None)
    return dropped()


graph, y = observed(step)
print(y() is not None and y().tag)
del graph
print(y() is None)
