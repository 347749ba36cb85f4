"""K: the traceback of a program's own exception shows the program's frames and torch's."""

import traceback

import torch
from observed import observed
from torch.utils.checkpoint import checkpoint


class MineError(Exception):
    pass


def fail(*_):
    raise MineError


class FailsIn(torch.autograd.Function):
    place = "forward"

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        ctx.save_for_backward(x)
        return fail() if FailsIn.place == "forward" else x * 2

    @staticmethod
    def backward(ctx, gradient):
        _ = ctx.saved_tensors
        return fail() if FailsIn.place == "backward" else gradient * 2


class FailsInSetup(torch.autograd.Function):
    forward = staticmethod(lambda x: x * 2)
    setup_context = staticmethod(fail)


def function(place):
    FailsIn.place = place
    FailsIn.apply(torch.ones(2, requires_grad=True)).sum().backward()


def hook():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(fail)
    x.exp().sum().backward()


def post_accumulate_hook():
    x = torch.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(fail)
    x.exp().sum().backward()


def module_hooks(register):
    linear = torch.nn.Linear(2, 2)
    getattr(linear, register)(fail)
    linear(torch.ones(1, 2, requires_grad=True)).sum().backward()


def pack_hook():
    with torch.autograd.graph.saved_tensors_hooks(fail, lambda kept: kept):
        torch.ones(2, requires_grad=True).exp()


def unpack_hook(read):
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, fail):
        y = torch.ones(2, requires_grad=True).exp()
    read(y)


def checkpointed(use_reentrant, first):
    calls = []

    def run(x):
        calls.append(x)
        return fail() if len(calls) == (1 if first else 2) else x.exp()

    x = torch.ones(2, requires_grad=True)
    checkpoint(run, x, use_reentrant=use_reentrant).sum().backward()


def elementwise():
    torch.ones(2).apply_(fail)


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return fail()


class RefusingDispatch(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return fail()


def dispatched():
    x, y = torch.ones(2), torch.ones(2, requires_grad=True)
    z = y * x
    with RefusingDispatch():
        x.add_(1)
    z.sum().backward()


def batch_norm(x):
    torch.nn.BatchNorm1d(2)(x)


CASES = {
    "forward": lambda: function("forward"),
    "backward": lambda: function("backward"),
    "setup_context": lambda: FailsInSetup.apply(torch.ones(2, requires_grad=True)),
    "hook": hook,
    "post_accumulate_hook": post_accumulate_hook,
    "full_backward_hook": lambda: module_hooks("register_full_backward_hook"),
    "full_backward_pre_hook": lambda: module_hooks("register_full_backward_pre_hook"),
    "pack_hook": pack_hook,
    "unpack_hook": lambda: unpack_hook(lambda y: y.sum().backward()),
    "unpack_hook read": lambda: unpack_hook(lambda y: y.grad_fn._saved_result),
    "checkpoint forward": lambda: checkpointed(False, True),
    "checkpoint again": lambda: checkpointed(False, False),
    "reentrant forward": lambda: checkpointed(True, True),
    "reentrant again": lambda: checkpointed(True, False),
    "apply_": elementwise,
    "data": lambda: torch.ones(2).as_subclass(Refusing).data,
    "data=": lambda: setattr(torch.ones(2).as_subclass(Refusing), "data", torch.ones(2)),
    "detach_": lambda: torch.ones(2).as_subclass(Refusing).detach_(),
    "dispatch mode": dispatched,
    "BatchNorm1d": lambda: batch_norm(torch.ones(3, 2).as_subclass(Refusing)),
    "BatchNorm1d of a wrong shape": lambda: batch_norm(torch.ones(2)),
    "wrong apply_": lambda: torch.ones(2).apply_(3),
    "wrong data": lambda: setattr(torch.ones(2), "data", 3),
    "wrong register_hook": lambda: torch.ones(2).register_hook(fail),
    "wrong backward": lambda: torch.autograd.grad(torch.ones(2), 3),
    "wrong hooks": lambda: torch._C._autograd._push_saved_tensors_default_hooks(3),
    "wrong definition": lambda: torch.library.Library("invisible", "DEF").define(3),
}


def steps():
    for name, case in CASES.items():
        try:
            case()
        except Exception as error:
            frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            print(name, type(error).__name__, frames, repr(error.__cause__), repr(error.__context__))
        else:
            print(name, "raised nothing")


observed(steps)
