"""A: what we read of a tensor goes through no ``__torch_function__`` of the program's."""

import torch
from observed import observed
from torch.nn.utils._per_sample_grad import call_for_per_sample_grads
from torch.overrides import TorchFunctionMode, resolve_name

log = []


class Log(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        log.append(resolve_name(function) or function.__name__)
        return function(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        log.append(resolve_name(function) or function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        log.append(type(x).__name__)
        return gradient * 2


def told(step):
    log.clear()
    result = step()
    print(step.__name__, log, type(result).__name__)


def backward_in_a_mode():
    x = torch.ones(2, requires_grad=True)
    y = x.exp().sum()
    with Log():
        torch.autograd.grad(y, x, create_graph=True)


def function_in_a_mode():
    x = torch.ones(2, requires_grad=True)
    with Log():
        Double.apply(x).sum().backward()


def function_of_a_subclass():
    x = torch.ones(2).as_subclass(Sub).requires_grad_()
    log.clear()
    y = Double.apply(x)
    y.sum().backward()
    return y


def operations_on_a_subclass():
    x = torch.ones(2).as_subclass(Sub).requires_grad_()
    log.clear()
    y = (x.exp() * x).sum()
    y.backward()
    return y


def write_to_a_subclass():
    x = torch.ones(2).as_subclass(Sub).requires_grad_()
    y = x * 1
    z, memory = y.sin(), y.data
    log.clear()
    memory.mul_(1)
    z.sum().backward()


def per_sample_gradients():
    for layer, x in (
        (torch.nn.Linear(2, 2), torch.ones(3, 2)),
        (torch.nn.Conv1d(1, 1, 2), torch.ones(3, 1, 4)),
        (torch.nn.LayerNorm(2), torch.ones(3, 2)),
        (torch.nn.Embedding(3, 2), torch.tensor([[0], [1]])),
        (torch.nn.GroupNorm(1, 2), torch.ones(3, 2)),
    ):
        call_for_per_sample_grads(layer)(x).sum().backward()
        print(layer.weight.grad_sample.shape, layer.weight.grad_sample.sum().item())


def steps():
    told(backward_in_a_mode)
    told(function_in_a_mode)
    told(function_of_a_subclass)
    told(operations_on_a_subclass)
    told(write_to_a_subclass)
    per_sample_gradients()


observed(steps)
