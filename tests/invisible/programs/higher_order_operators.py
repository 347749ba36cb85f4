"""L: higher-order operators run, and those that are defined inside of a context.

Those that compile first, and their gradients, are in ``tests/compile``.
"""

import torch
import torch._higher_order_ops.out_dtype
from observed import observed

operators = torch.ops.higher_order


class Twice(torch._ops.HigherOrderOperator):
    def __call__(self, x):
        return super().__call__(x)


def step():
    x = torch.arange(6.0).reshape(3, 2)
    whole = x.to(torch.int8)
    print(operators.cond(x.sum() > 1, lambda x: x.sin(), lambda x: x.cos(), (x,)))
    print(operators.out_dtype(torch.ops.aten.mm.default, torch.int32, whole, whole.t()))
    twice = Twice("unclobber_test_twice")
    twice.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)(lambda x: x * 2)
    for key in ("AutogradCPU", "CPU"):
        print(key, twice.non_fallthrough_keys.has(getattr(torch._C.DispatchKey, key)))
    twice.fallthrough(torch._C.DispatchKey.AutogradCPU)
    print(twice(x))


observed(step)
