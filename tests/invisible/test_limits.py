"""What docs/limits.md says that a program can tell: inside a context it differs so, and in no other way."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import re
import threading
import traceback

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_pre_hooks
from torch.utils._python_dispatch import TorchDispatchMode

import unclobber
from torch_features import needs
from unclobber.observe.native import core
from unclobber.torch_internals.compat import behaviour
from unclobber.torch_internals.patches import original_of

CONTEXTS = [unclobber.watch, unclobber.guard]
NATIVE = core.loaded().module is not None
ALIASES = 2 if not NATIVE and not behaviour.shows_packed else 1
"""How many a mode sees of what is saved; two on the Python core with an older torch."""
FRAMES = ["frames_of_an_error", "backward", "backward", "_engine_run_backward"]


def flag_of_a_leaf():
    """Return whether the second derivative has the flag of now, and that of the save."""
    w = torch.tensor([2.0, 3.0])
    x = torch.ones(2, requires_grad=True)
    y = (x * w).pow(2).sum()
    w.requires_grad_()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), w, allow_unused=True)
    return None if second is None else second.tolist()


def identity_of_a_save():
    """Return whether a node hands out the tensor itself, its memory and its attributes."""
    x = torch.ones(2, requires_grad=True)
    x.tag = "x"
    saved = x.sin().grad_fn._saved_self
    return saved is x, saved.data_ptr() == x.data_ptr(), hasattr(saved, "tag")


class Wrapper(torch.Tensor):
    """A tensor whose values lie in another one, which has an autograd graph of its own."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch.overrides.enable_reentrant_dispatch():
            return cls(func(*[a.inner if isinstance(a, cls) else a for a in args], **(kwargs or {})))


def graph_within_a_subclass():
    """Return whether a derivative within the saved wrapper can be taken on."""
    x = Wrapper(torch.tensor(2.0, requires_grad=True)).requires_grad_()
    (gradient,) = torch.autograd.grad(x * x, x, Wrapper(torch.tensor(1.0)), create_graph=True)
    return gradient.inner.requires_grad


def graph_within_a_subclass_with_hooks():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return graph_within_a_subclass()


def detached_in_a_profile():
    """Return whether the profiler sees a `detach` of a program that calls none."""
    x = torch.ones(2, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        (x * 2).exp().sum().backward()
    return "aten::detach" in {event.key for event in profile.key_averages() if event.count > 1}


def identity_of_a_hook():
    """Return whether the hook itself lies among a tensor's hooks, and what equals it."""
    x = torch.ones(2, requires_grad=True)

    def hook(gradient):
        return gradient

    x.register_hook(hook)
    (lying,) = x._backward_hooks.values()
    return lying is hook, lying == hook


REGISTER_HOOK = original_of(torch.Tensor.register_hook)


def identity_of_a_function():
    """Return whether a function that is replaced is torch's, and whether it compares as torch's."""
    return torch.Tensor.register_hook is REGISTER_HOOK, torch.Tensor.register_hook == REGISTER_HOOK


class Misshapen(torch.autograd.Function):
    """Has a gradient that torch refuses."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_ones(5)


def frames_of_an_error():
    """Return whether frames of the package are in the traceback of an error that C++ raises in backward."""
    x = torch.ones(2, requires_grad=True)
    try:
        Misshapen.apply(x).sum().backward()
    except RuntimeError as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = os.path.dirname(unclobber.__file__)
        return any(frame.filename.startswith(ours) for frame in frames), [
            frame.name for frame in frames if not frame.filename.startswith(ours)
        ]


def frames_of_a_thread():
    """Return whether a frame of the package is on the stack of a thread, and the program's own."""
    stacks = []
    thread = threading.Thread(target=lambda: stacks.append(traceback.extract_stack()))
    thread.start()
    thread.join()
    ours = os.path.dirname(unclobber.__file__)
    return any(frame.filename.startswith(ours) for frame in stacks[0]), stacks[0][-1].name


def name_of_a_view():
    """Return what torch's sentence calls a result that was written over a view, without its source."""
    space = {"x": torch.ones(2, requires_grad=True)}
    try:
        exec("v = (x * 2)[:]\nv.relu_()\nv.add_(1)\nv.sum().backward()", space)
    except RuntimeError as error:
        return re.search("output 0 of (Relu|AsStrided)", str(error))[1]


class Detached(TorchDispatchMode):
    """Count the aliases that are made."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten.detach.default
        return function(*args, **(kwargs or {}))


def aliases():
    """Return how many are made of the copy of what is written, and of a view that was written before."""
    x, w = (torch.ones(2, requires_grad=True) for _ in range(2))
    with Detached() as first:
        y = x * 1
        y *= w
    base = x * 1
    view = base[:]
    base.add_(1)
    with Detached() as second:
        view * w
    return first.count, second.count


def hooks_for_what_was_overwritten():
    """Return what a registered pack hook is given, whether in the program's memory, and how many aliases."""
    x = torch.ones(2, requires_grad=True)
    a = x * 2
    b = a * a
    a.mul_(2)
    given = []
    with Detached() as mode:
        b.grad_fn._raw_saved_self.register_hooks(lambda kept: given.append(kept) or kept, lambda kept: kept)
    return given[0].tolist(), given[0].data_ptr() == a.data_ptr(), mode.count


def tensors_of_the_collector():
    """Return how many there are besides the program's, of which hooks of its own keep one."""
    x = torch.ones(2, requires_grad=True)
    before = sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept):
        y = x.sin()
    return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects()) - before, y.grad_fn.name()


def owners_of_a_storage():
    """Return how many owners two saved leaves have, of which torch's save adds none to the storage."""
    x = torch.ones(2, requires_grad=True)
    w = torch.ones(2, requires_grad=True)
    before = torch._C._storage_Use_Count(x.untyped_storage()._cdata)
    y = x * w
    return torch._C._storage_Use_Count(x.untyped_storage()._cdata) - before, y.grad_fn.name()


def hooks_of_all_optimizers():
    """Return how many there are once an optimizer has run."""
    w = torch.ones(2, requires_grad=True)
    torch.optim.SGD([w], lr=0.1).step()
    return len(_global_optimizer_pre_hooks)


def frames_below_hooks(*, shared=False):
    """Return whether frames of the package lie below the hooks of a tensor, a node, a leaf and a module."""
    files = []

    def look(*_):
        files.extend(frame.filename for frame in inspect.stack(0))

    x = torch.ones(2, requires_grad=True)
    layer = torch.nn.Tanh()
    layer.register_full_backward_hook(look)
    layer.register_full_backward_pre_hook(look)
    x.register_post_accumulate_grad_hook(look)
    y = layer(x)
    y.grad_fn.register_hook(look)
    z = y * 2
    z.register_hook(look)
    (z + y.detach().requires_grad_() * 2 if shared else z * 2).sum().backward()
    assert files
    return any(os.path.dirname(unclobber.__file__) in file for file in files)


def frames_below_a_shared_gradient():
    """Return whether there are any if another consumer waits for a hook's gradient."""
    return frames_below_hooks(shared=True)


def place_of_torchs_warning():
    """Return the file that torch's warning about a full backward hook names."""
    layer = torch.nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="Full backward hook is firing") as found:
        layer(torch.ones(1, 2)).sum().backward()
    return os.path.basename(found[0].filename)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    ("look", "plain", "inside"),
    [
        (flag_of_a_leaf, [4.0, 6.0], None),
        (identity_of_a_save, (True, True, True), (False, True, False)),
        (detached_in_a_profile, False, not NATIVE),
        (graph_within_a_subclass, True, False),
        (graph_within_a_subclass_with_hooks, False, False),
        (identity_of_a_hook, (True, True), (False, True)),
        (identity_of_a_function, (True, True), (False, True)),
        (frames_of_an_error, (False, FRAMES), (True, FRAMES)),
        (frames_of_a_thread, (False, "<lambda>"), (True, "<lambda>")),
        (aliases, (0, 0), (ALIASES, 0)),
        (owners_of_a_storage, (0, "MulBackward0"), (1, "MulBackward0")),
        (hooks_of_all_optimizers, 0, 1),
        (frames_below_hooks, False, not NATIVE),
        (frames_below_a_shared_gradient, False, True),
        pytest.param(
            place_of_torchs_warning,
            "test_limits.py",
            "test_limits.py" if NATIVE else "__init__.py",
            marks=needs("warning of full backward hooks"),
        ),
        (tensors_of_the_collector, (1, "SinBackward0"), (2, "SinBackward0")),
    ],
)
def test_a_program_can_tell(look, plain, inside, context):
    unclobber.uninstall()  # what is replaced stays so for a while
    for entered, expected in ((contextlib.nullcontext, plain), (context, inside)):
        with entered():
            assert look() == expected


@pytest.mark.skipif(not behaviour.shows_packed, reason="refused: docs/limits.md")
def test_guard_gives_registered_hooks_the_value_of_the_save():
    plain = [4.0, 4.0], True, 1
    assert hooks_for_what_was_overwritten() == plain
    with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch():
        assert hooks_for_what_was_overwritten() == plain
    with unclobber.guard():
        assert hooks_for_what_was_overwritten() == ([2.0, 2.0], False, 0)


def test_a_view_without_source_has_another_name():
    """Under watch, because guard repairs it."""
    assert name_of_a_view() == "Relu"
    with unclobber.watch():
        assert name_of_a_view() == "AsStrided"


def test_a_method_that_torch_calls_is_a_descriptor_of_ours_in_the_class_alone():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    own = vars(Double)["forward"]
    with unclobber.watch():
        Double.apply(torch.ones(2, requires_grad=True))
        assert vars(Double)["forward"] is not own
        assert isinstance(vars(Double)["forward"], staticmethod)
        assert inspect.isfunction(Double.forward)
    assert vars(Double)["forward"] is own
