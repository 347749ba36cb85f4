"""K: nothing of ours lies on a ``ctx``, a node or a tensor of the program's."""

import gc
import weakref

import torch
from observed import observed


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cache):
        ctx.cache, ctx.several = cache, [cache, {"key": cache}]
        ctx.save_for_backward(x)
        print(sorted(vars(ctx)), ctx.metadata)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        print(sorted(vars(ctx)), ctx.cache is CACHE, ctx.metadata)
        return gradient * ctx.cache, None


class Scratching(torch.autograd.Function):
    """Writes to its input without ``mark_dirty``, and nobody reads that again."""

    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        x.zero_()
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient


CACHE = torch.ones(2)


def of_ctx():
    x = torch.ones(2, requires_grad=True)
    y = Keeping.apply(x, CACHE)
    y.sum().backward(retain_graph=True)
    y.grad_fn.metadata["mine"] = 1
    y.sum().backward()
    print(x.grad, sorted(vars(y.grad_fn)), y.grad_fn.metadata)
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    print(node())


def nodes(root, seen):
    if root is not None and root not in seen:
        seen.append(root)
        for node, _ in root.next_functions:
            nodes(node, seen)
    return seen


def of_nodes():
    linear = torch.nn.Linear(2, 2)
    linear.register_full_backward_hook(lambda module, given, returned: None)
    x = torch.ones(1, 2, requires_grad=True)
    hidden = x * 2
    y = (linear(hidden).exp() * Scratching.apply(hidden * 3)).sum()
    graph = nodes(y.grad_fn, [])
    y.backward(retain_graph=True)
    torch.autograd.grad(y, x)
    print([(node.name(), node.metadata) for node in graph])
    print(vars(x), vars(hidden), vars(linear.weight), x.grad)


class Frozen(type(torch.autograd.Function)):
    """A metaclass that refuses to change its classes."""

    def __setattr__(cls, name, value):
        raise TypeError(f"{cls.__name__} is frozen")


def of_a_frozen_class():
    class Twice(torch.autograd.Function, metaclass=Frozen):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    Twice.apply(x).sum().backward()
    print(x.grad)


def of_anomalies():
    with torch.autograd.detect_anomaly(check_nan=False):
        y = torch.ones(2, requires_grad=True).exp().sum()
        print([sorted(node.metadata) for node in nodes(y.grad_fn, [])])
        y.backward()


def steps():
    of_ctx()
    of_nodes()
    of_a_frozen_class()
    of_anomalies()


observed(steps)
