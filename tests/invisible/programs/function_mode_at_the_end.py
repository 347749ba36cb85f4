"""What runs when a context ends, or a step in it, is told to no ``TorchFunctionMode`` of the program's."""

import torch
from observed import observed
from torch.overrides import TorchFunctionMode, resolve_name


class Log(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        print(resolve_name(function) or function.__name__)
        return function(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print("Sub", resolve_name(function) or function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


ALIVE = []


def saved():
    """What is saved and alive at the end: of a tensor that is written, of one that is not, of a subclass."""
    x = torch.ones(2, requires_grad=True)
    y, z = x.exp(), (x * 2).sin()
    with torch.no_grad():
        y.mul_(1)
    sub = torch.ones(2).as_subclass(Sub).requires_grad_()
    ALIVE.extend((y, z, sub.exp() * sub))


def step():
    linear = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
    linear(torch.ones(1, 2)).sum().backward()
    with Log():
        optimizer.step()
        optimizer.zero_grad()


with Log():
    observed(saved)
    print("over")
    observed(step)
    print("over")
mode = Log()
observed(lambda: (saved(), mode.__enter__()))
mode.__exit__(None, None, None)
ALIVE.clear()
