"""M: what lies among a tensor's hooks is what the program has put there."""

import copy
import pickle

import torch
from observed import observed


def doubled(gradient):
    return gradient * 2


class Hook:
    calls = 0

    def __call__(self, gradient):
        self.calls += 1


def step():
    tensor = torch.ones(2, requires_grad=True)
    for _ in range(2):
        if doubled not in (tensor._backward_hooks or {}).values():  # once only
            tensor.register_hook(doubled)
        tensor.sum().backward()
    print(tensor.grad)
    (lying,) = tensor._backward_hooks.values()
    print(doubled == lying, lying == doubled, hash(lying) == hash(doubled), lying in {doubled}, lying != len)
    print(
        type(doubled) is lying.__class__,
        isinstance(lying, type(doubled)),
        lying.__name__,
        repr(lying) == repr(doubled),
    )
    print(pickle.loads(pickle.dumps(lying)) == doubled, copy.deepcopy(lying) == doubled)
    other = torch.ones(2, requires_grad=True)
    hook = Hook()
    handle = other.register_hook(hook)
    other.register_hook(hook)
    print(list(other._backward_hooks.values()).count(hook), list(other._backward_hooks.values()).index(hook))
    other.sum().backward()
    handle.remove()
    other.sum().backward()
    print(hook.calls, next(iter(other._backward_hooks.values())).calls)


observed(step)
