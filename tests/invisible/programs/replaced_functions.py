"""K: what lies in torch is what lay there, by all that a program asks of a function."""

import copy
import inspect
import pickle
import threading

import torch
import torch.utils.checkpoint
import torch.utils.dlpack
from observed import observed

BatchNorm = torch.nn.modules.batchnorm._BatchNorm
Context = torch.autograd.function.BackwardCFunction
Hook = torch.utils.hooks.BackwardHook
HOMES = [
    (BatchNorm, "forward"),
    (Context, "apply"),
    (Context, "saved_tensors"),
    (Hook, "__init__"),
    (Hook, "setup_input_hook"),
    (Hook, "setup_output_hook"),
    (threading.Thread, "start"),
    (torch.library.Library, "define"),
    (torch.library.Library, "impl"),
    (type(torch.ops), "load_library"),
    (torch.utils.checkpoint.CheckpointFunction, "forward"),
    (torch.autograd.graph, "_engine_run_backward"),
    (torch.autograd, "_engine_run_backward"),
    (torch._C._autograd, "_push_saved_tensors_default_hooks"),
    (torch._C._autograd, "_saved_tensors_hooks_disable"),
    (torch._C._autograd, "_saved_tensors_hooks_enable"),
    *((torch.Tensor, name) for name in ("register_hook", "detach_", "data", "apply_", "map_", "__dlpack__")),
    (torch.UntypedStorage, "resize_"),
]
BEFORE = [getattr(home, name) for home, name in HOMES]


def answer(ask, *args):
    try:
        return ask(*args)
    except Exception as error:
        return type(error).__name__


def looks():
    for (home, name), before in zip(HOMES, BEFORE, strict=True):
        now = getattr(home, name)
        print(home.__name__, name, before == now, now == before, hash(before) == hash(now), now in {before})
        print(repr(now) == repr(before), now.__class__ is type(before), callable(now))
        print(inspect.isbuiltin(before) or answer(copy.copy, now) == answer(copy.copy, before))
        for attribute in ("__module__", "__qualname__", "__doc__", "__code__", "__defaults__", "__globals__"):
            marker = object()
            values = getattr(now, attribute, marker), getattr(before, attribute, marker)
            print(attribute, values[0] is values[1] or values == (values[0], values[0]), values[0] is marker)
        for ask in (inspect.signature, inspect.getsource, inspect.getsourcefile):
            print(ask.__name__, answer(ask, now) == answer(ask, before))
        for ask in (inspect.isfunction, inspect.isbuiltin, inspect.isroutine, inspect.isgeneratorfunction):
            print(ask.__name__, ask(now))
        print(len(answer(pickle.dumps, now)))


def copied():
    """`to_dlpack` is named after a place where nothing is replaced, and `numpy` after a class above."""
    for home, name in ((torch.utils.dlpack, "to_dlpack"), (torch.Tensor, "numpy"), *HOMES):
        now = getattr(home, name)
        if callable(now):
            print(name, pickle.loads(pickle.dumps(now)) == now, copy.deepcopy(now) is now)


def methods():
    norm, tensor = torch.nn.BatchNorm2d(3), torch.ones(2)
    for method in (norm.forward, tensor.register_hook, threading.Thread().start):
        print(
            method.__name__, method.__self__ is not None, method == getattr(method.__self__, method.__name__)
        )
        print(inspect.ismethod(method), inspect.signature(method), method.__func__ == BEFORE[0])
        print(method.__code__.co_name, inspect.getsource(method).splitlines()[0], method.__doc__ is not None)
    print(norm.forward.__func__ == BatchNorm.forward == BEFORE[0], type(norm).forward == BEFORE[0])
    print(len(pickle.dumps(norm)), copy.deepcopy(norm).eps)


def started_twice():
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    print(answer(thread.start), sorted(vars(thread)))


def scripted():
    norm = torch.jit.script(torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.ReLU()))
    print(norm(torch.arange(6.0).reshape(3, 2)), norm.code)


def misused():
    x = torch.ones(2, requires_grad=True)
    for call in (
        x.register_hook,
        x.register_post_accumulate_grad_hook,
        lambda: x.register_hook(print, 1),
        lambda: x.register_hook(hook=print, name=1),
        lambda: (x * 2).detach_(1),
        lambda: (x * 2).detach_(now=True),
        lambda: x.data_ptr(1),
        lambda: x.data_ptr(now=True),
        lambda: x.detach().numpy(1),
    ):
        try:
            call()
        except TypeError as error:
            print(error)


for step in (looks, copied, methods, started_twice, scripted, misused):
    observed(step)
    step()  # after the context, too
