"""J: what stands in for torch's functions hands on what is no tensor, as FX's objects are."""

import torch
from observed import observed
from torch import Tensor


class Duck:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return f"duck {function.__name__}"


CALLS = (
    lambda: torch.fx.symbolic_trace(lambda x: torch.detach_(x * 1)).code,
    lambda: torch.jit.trace(lambda x: torch.detach_(x * 2), torch.ones(2)).code,
    lambda: torch.detach_(Duck()),
    lambda: torch.detach_(input=Duck()),
    lambda: torch.detach_(input=torch.ones(1)),
    lambda: torch.detach_(3),
    lambda: torch.detach_(),
    lambda: Tensor.detach_(Duck()),
    lambda: Tensor.detach_(torch.ones(1), 3),
    lambda: Tensor.numpy(Duck()),
    lambda: Tensor.data_ptr(Duck()),
    lambda: Tensor.apply_(Duck(), print),
    lambda: Tensor.map_(Duck(), Duck(), print),
    lambda: Tensor.__dlpack__(Duck()),
    lambda: torch.utils.dlpack.to_dlpack(Duck()),
    lambda: Tensor.register_hook(Duck(), print),
)


def steps():
    for call in CALLS:
        try:
            print(call())
        except Exception as error:
            print(type(error).__name__, error)


observed(steps)
