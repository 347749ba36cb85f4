"""I: a dispatch mode sees the operations that it sees with nobody looking."""

import torch
from observed import observed
from torch.utils._python_dispatch import TorchDispatchMode


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        operations.append(str(function))
        return function(*args, **(kwargs or {}))


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient * w, gradient * x


def forward(step):
    operations.clear()
    with Log():
        result = step()
    print(step.__name__, operations)
    result.sum().backward()


def inputs():
    return x * w * constant


def results():
    return (x * 1).exp().relu()


def other_memory():
    """What is saved gets another memory, and then shares a version counter with the old one."""
    y = x.exp()
    y.data = torch.ones(2)
    return y.detach() * x


def layer():
    return torch.relu(linear(batch))


def function():
    return Product.apply(x * 2, w)


def whole_step_of_constants():
    operations.clear()
    with Log():
        (w * constant).sum().backward()
    print(operations)


def traced():
    from torch.fx.experimental.proxy_tensor import make_fx

    def gradient(x, w):
        y = (x * w * constant).exp() * x
        return torch.autograd.grad(y.sum(), (x, w))

    graph = make_fx(gradient)(x, w)
    got = graph(torch.full((2,), 2.0), torch.full((2,), 0.5))
    print([one.tolist() for one in got])


def steps():
    for step in (inputs, results, other_memory, layer, function):
        forward(step)
    whole_step_of_constants()
    traced()


operations = []
x = torch.ones(2, requires_grad=True)
w = torch.nn.Parameter(torch.full((2,), 2.0))
constant = torch.full((2,), 3.0)
linear = torch.nn.Linear(2, 2)
batch = torch.ones(1, 2)
observed(steps)
