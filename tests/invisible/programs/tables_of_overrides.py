"""A: what a `__torch_function__` gets is found in tables by function, also in those made before."""

import copy
import inspect
import pickle

import torch
from observed import observed
from torch.overrides import TorchFunctionMode, get_overridable_functions, resolve_name

NAMES = (
    "register_hook",
    "register_post_accumulate_grad_hook",
    "detach_",
    "apply_",
    "map_",
    "__dlpack__",
    "numel",
)


def functions():
    data = torch.Tensor.data
    return [data.__get__, data.__set__, torch.detach_, *(getattr(torch.Tensor, name) for name in NAMES)]


TABLE = {function: number for number, function in enumerate(functions())}
BEFORE = functions()


class Strict(torch.Tensor):
    """Answers what it knows, and refuses the rest."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in TABLE and func is not torch.Tensor.requires_grad_:
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs or {})


class Logging(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(resolve_name(func), TABLE.get(func))
        return func(*args, **(kwargs or {}))


def calls():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    with Logging():
        _ = x.data
        y.data = torch.zeros(2)
        x.register_hook(lambda gradient: gradient)
        (x * 1).detach_()
        torch.detach_(y)
        y.apply_(lambda value: value)
        y.map_(y, lambda a, b: a)


def strict():
    tensor = torch.ones(2).as_subclass(Strict)
    _ = tensor.data
    tensor.data = torch.zeros(2)
    tensor.requires_grad_().register_hook(lambda gradient: gradient)
    print(torch.ones(2).as_subclass(Strict).apply_(lambda value: value).tolist is not None)


def uninitialized():
    lazy = torch.nn.LazyLinear(3)
    for call in (lambda: lazy.weight.register_hook(lambda gradient: gradient), lazy.weight.detach_):
        try:
            call()
        except ValueError as error:
            print(str(error).partition(" at 0x")[0])
    print(torch.nn.Sequential(lazy, torch.nn.LazyBatchNorm1d())(torch.ones(2, 4)).shape)


def looks():
    everything = [one for functions in get_overridable_functions().values() for one in functions]
    for before, now in zip(BEFORE, functions(), strict=True):
        print(before == now, now == before, before != now, hash(before) == hash(now), {before: 1}.get(now))
        print(
            {now: 1}.get(before), repr(before) == repr(now), now.__name__, getattr(now, "__qualname__", None)
        )
        print(getattr(now, "__module__", None), now.__doc__ == before.__doc__, resolve_name(now))
        print(
            now.__class__, callable(now), inspect.isfunction(now), before in everything, copy.copy(now) == now
        )
    for name in ("register_hook", "__dlpack__"):
        function = getattr(torch.Tensor, name)
        print(inspect.signature(function), inspect.getsourcefile(function), function.__code__.co_name)
        print(pickle.dumps(function))
    print(pickle.loads(pickle.dumps(torch.Tensor.detach_)) == torch.Tensor.detach_)
    print(inspect.isgetsetdescriptor(torch.Tensor.data), torch.Tensor.data.__objclass__)


def deleted():
    x = torch.ones(2)
    try:
        del x.data
    except RuntimeError as error:
        print(error)


for step in (calls, strict, uninitialized, looks, deleted):
    observed(step)
    step()  # after the context, too
