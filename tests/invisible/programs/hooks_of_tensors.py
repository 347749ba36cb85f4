"""M: what lies among a tensor's hooks is what the program has put there."""

import copy
import pickle

import torch
from observed import observed
from torch.overrides import TorchFunctionMode


def doubled(gradient):
    return gradient * 2


def halved_in_place(gradient):
    return gradient.mul_(0.5)


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
    seen_by_a_mode()


class Seen(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function == torch.Tensor.register_hook:
            print("mode", [one is halved_in_place for one in args[1:]])
        return function(*args, **(kwargs or {}))


def seen_by_a_mode():
    """A mode is given the hook itself, and the hook's write spoils nothing."""
    leaf = torch.ones(2, requires_grad=True)
    with Seen():
        leaf.register_hook(halved_in_place)
    print(torch.autograd.grad(leaf.sigmoid().mean(), [leaf]))


observed(step)
