"""The names that a probed program uses: things that look at it, and note what they see in ``log``.

A program's log is all that it can tell of the surroundings that it runs in. This file is executed anew for
each run, also by a process that has never imported the package, so it imports torch and nothing of ours.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import os
import pickle
import re
import sys
import threading
import traceback
import weakref

import torch
from torch.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint  # noqa: F401  (for the program)

leaves = []
"""The program's, by whatever name."""
log = []
"""Tuples: what was looked at, and what was seen."""
_probing = []
"""Not empty while a probe runs: modes and subclasses then note nothing."""


@contextlib.contextmanager
def _probe():
    _probing.append(True)
    try:
        yield
    finally:
        _probing.pop()


def note(what, *seen):
    log.append((what, *seen))


def name_of(tensor):
    """The variables that hold this very object."""
    return " = ".join(name for name, value in globals().items() if value is tensor) or "?"


def facts(tensor):
    """All that can be asked of a tensor but its numbers."""
    if not isinstance(tensor, torch.Tensor):
        return repr(tensor)
    with _probe():
        base = tensor._base
        node = tensor.grad_fn
        found = {
            "is": name_of(tensor),
            "class": type(tensor).__name__,
            "shape": tuple(tensor.shape),
            "strides": tensor.stride(),
            "dtype": str(tensor.dtype),
            "requires_grad": tensor.requires_grad,
            "leaf": tensor.is_leaf,
            "node": None if node is None else node.name(),
            "output": tensor.output_nr,
            "base": None if base is None else name_of(base),
            "version": None if tensor.is_inference() else tensor._version,
            "attributes": sorted(vars(tensor)),
            "hooks": len(tensor._backward_hooks or ()),
            "memory of": [
                name
                for name, value in globals().items()
                if isinstance(value, torch.Tensor)
                and value.untyped_storage()._cdata == tensor.untyped_storage()._cdata
            ],
        }
    return ", ".join(f"{key}={value}" for key, value in found.items())


def look(*tensors):
    """Note the facts of variables."""
    for tensor in tensors:
        note("tensor", facts(tensor))


def numbers(tensor):
    with _probe(), torch.no_grad():
        return None if tensor is None else tensor.detach().as_subclass(torch.Tensor).tolist()


def gradients(found=None):
    """Note the gradients of all leaves: those that a call gave, or what lies at ``.grad``."""
    given = [leaf.grad for leaf in leaves] if found is None else found
    for gradient in given:
        note("gradient", facts(gradient))
    note("gradients", *(numbers(gradient) for gradient in given))


def error_text(error):
    """The first line of an error or a warning, without addresses."""
    return re.sub("0x[0-9a-f]+", "0x", str(error)).partition("\n")[0]


def note_error(error):
    """An error that the program has caught, and the functions that it went through."""
    with _probe():
        # ours, raised at the end of the context, has torch's as its cause: docs/limits.md
        raised = (error.__cause__ or error) if _is_ours(error) else error
        frames = traceback.extract_tb(raised.__traceback__)
        if isinstance(error, RuntimeError):  # C++ raises it through ours: docs/limits.md
            frames = [frame for frame in frames if "unclobber" not in frame.filename.split(os.sep)]
        names = [frame.name for frame in frames]
        names = names[names.index("<module>") if "<module>" in names else 0 :]
        chain = [type(error.__cause__).__name__, type(error.__context__).__name__]
        note("error", _class_of(error), error_text(error), chain if not _is_ours(error) else ["NoneType"] * 2)
        note("frames", names)


@contextlib.contextmanager
def caught():
    """The program goes on after an error."""
    try:
        yield
    except Exception as error:
        note_error(error)


def _is_ours(error):
    """Whether it is an ``InplaceError``, which stands for the RuntimeError of torch's that caused it."""
    return type(error).__module__.startswith("unclobber")


def _class_of(error):
    return next(one.__name__ for one in type(error).__mro__ if not one.__module__.startswith("unclobber"))


# --- leaves and modules -----------------------------------------------------------------------------


class Logged(torch.Tensor):
    """A subclass that notes each function that it comes through."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if not _probing and not (function is torch.ops.aten.detach.default and _may_be_of_hooks()):
            note("subclass", resolve_name(function) or error_text(function))
        return super().__torch_function__(function, types, args, kwargs or {})


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def parameter(*shape):
    made = torch.nn.Parameter(torch.randn(*shape, dtype=torch.float64))
    made.main_grad = "of the program"
    return made


def subclass(*shape):
    return torch.randn(*shape, dtype=torch.float64).as_subclass(Logged).requires_grad_()


def buffer(*shape):
    return torch.rand(*shape, dtype=torch.float64)


def with_hooks(module):
    """A module with hooks of all kinds."""

    def forward_pre(module, args):
        note("forward pre", [facts(one) for one in args])

    def forward(module, args, output):
        note("forward", facts(output))

    def backward_pre(module, grad_output):
        note("backward pre", [facts(one) for one in grad_output])

    def backward(module, grad_input, grad_output):
        note("backward", [facts(one) for one in grad_input], [facts(one) for one in grad_output])

    module.register_forward_pre_hook(forward_pre)
    module.register_forward_hook(forward)
    module.register_full_backward_pre_hook(backward_pre)
    module.register_full_backward_hook(backward)
    note(
        "module's hooks",
        [
            [next(iter(hooks.values())).__name__, next(iter(hooks.values())) is hook]
            for hooks, hook in (
                (module._forward_pre_hooks, forward_pre),
                (module._forward_hooks, forward),
                (module._backward_pre_hooks, backward_pre),
                (module._backward_hooks, backward),
            )
        ],
    )
    return module


def pickled(module):
    """What a module is when it was written to a file and read, and when it was copied."""
    with _probe():
        written = io.BytesIO()
        torch.save(module.state_dict(), written)
        written.seek(0)
        read = torch.load(written, weights_only=True)
        note("file", {key: facts(one) for key, one in read.items()})
    for one in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        note("copy", type(one).__name__, [facts(p) for p in one.parameters()], sorted(vars(one)))


def pickled_parameter(tensor):
    read = pickle.loads(pickle.dumps(tensor))
    note("copy", facts(read), [numbers(read)])


# --- custom Functions -------------------------------------------------------------------------------


def _context(ctx):
    note("ctx", sorted(vars(ctx)), type(ctx).__name__, getattr(ctx, "number", None))


def _saved(ctx):
    saved = ctx.saved_tensors
    for one in saved:
        note("saved", facts(one))
    return saved


class Product(torch.autograd.Function):
    """Saves its inputs."""

    @staticmethod
    def forward(ctx, a, b):
        note("Function", facts(a), facts(b))
        ctx.number = 3
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, gradient):
        note("Function's backward", facts(gradient), ctx.needs_input_grad)
        a, b = _saved(ctx)
        _context(ctx)
        return gradient * b, gradient * a


class Exponential(torch.autograd.Function):
    """Saves its output, and something in the middle."""

    @staticmethod
    def forward(ctx, a):
        output = a.exp()
        ctx.save_for_backward(output, a.sin())
        return output

    @staticmethod
    def backward(ctx, gradient):
        output, _ = _saved(ctx)
        return gradient * output


class InTwo(torch.autograd.Function):
    """Has a ``setup_context``, a tensor of the program's as an attribute, and gradients that are None."""

    @staticmethod
    def forward(a, constant):
        return a.sin(), a + constant

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.constant = inputs[1]
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, first, second):
        (a,) = _saved(ctx)
        note("Function's backward", facts(first), facts(second), name_of(ctx.constant))
        one = 0 if first is None else first * a.cos()
        return one + (0 if second is None else second), None


class Dirty(torch.autograd.Function):
    """Writes to its input, and says so."""

    @staticmethod
    def forward(ctx, a):
        a.mul_(2)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Raising(torch.autograd.Function):
    """Has a backward that fails."""

    @staticmethod
    def forward(ctx, a):
        return a * 1

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("of the program")


class Misshapen(torch.autograd.Function):
    """Gives a gradient that torch refuses."""

    @staticmethod
    def forward(ctx, a):
        return a * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient.sum().reshape(1, 1, 1).expand(2, 5, 7)


# --- hooks ------------------------------------------------------------------------------------------


def hook_on(tensor, name, change=None):
    """A tensor's hook that notes its gradient, and perhaps gives another."""

    def hook(gradient):
        note("hook", name, facts(gradient))
        return None if change is None else gradient * change

    tensor.register_hook(hook)
    note("registered", len(tensor._backward_hooks))


def hook_once(tensor):
    """A hook that is registered unless it is there already."""

    def hook(gradient):
        note("hook", "once")

    for _ in range(2):
        if hook not in (tensor._backward_hooks or {}).values():
            tensor.register_hook(hook)
    note("registered", next(iter(tensor._backward_hooks.values())) == hook, len(tensor._backward_hooks))


def removed_hook(tensor):
    tensor.register_hook(lambda gradient: note("hook", "removed")).remove()


def raising_hook(tensor):
    def hook(gradient):
        raise ValueError("of the program")

    tensor.register_hook(hook)


def hook_after(tensor, name):
    tensor.register_post_accumulate_grad_hook(lambda p: note("accumulated", name, facts(p), facts(p.grad)))


def node_hooks(tensor, name):
    """Hooks before and behind the node of a result."""
    node = tensor.grad_fn
    if node is None:
        return
    node.metadata["mine"] = name
    note("metadata", [str(key) for key in node.metadata])
    node.register_prehook(lambda given: note("before node", name, [facts(one) for one in given]))
    node.register_hook(
        lambda left, given: (
            note("behind node", name, [facts(one) for one in left], [facts(one) for one in given])
            or note("metadata", [str(key) for key in node.metadata])
        )
    )


def hook_on_all(*tensors):
    there = [one for one in tensors if one.requires_grad]
    if there:
        register_multi_grad_hook(there, lambda found: note("all", [facts(one) for one in found]))


def hook_on_any(*tensors):
    there = [one for one in tensors if one.requires_grad]
    if there:
        register_multi_grad_hook(there, lambda found: note("any", facts(found)), mode="any")


def raw_hooks(tensor):
    """The program's hooks on one saved tensor."""
    for name in ("_saved_self", "_saved_result"):
        raw = getattr(tensor.grad_fn, f"_raw{name}", None)
        if raw is not None:
            break
    else:
        return
    mark = ["overwritten"] if _is_refused(tensor.grad_fn, name) else []
    raw.register_hooks(lambda t: note("raw pack", facts(t), *mark) or t, lambda t: note("raw unpack") or t)


def _is_refused(node, name):
    """In a plain process, whether torch's version check refuses what a node saved: hooks end that check."""
    if context is not contextlib.nullcontext:  # noqa: F821  (as `run_text` gives it)
        return False
    noted = len(log)
    try:
        with _probe():
            getattr(node, name)
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    finally:
        del log[noted:]  # hooks of the program's, which it calls
    return False


def keeping(name):
    """Hooks that keep the very tensor."""
    return saved_tensors_hooks(
        lambda tensor: note("pack", name, facts(tensor)) or tensor,
        lambda kept: note("unpack", name, facts(kept)) or kept,
    )


def copying(name):
    """Hooks that keep a copy of what is no parameter."""

    def pack(tensor):
        note("pack", name, facts(tensor))
        return tensor if isinstance(tensor, torch.nn.Parameter) else (tensor.detach().clone(),)

    def unpack(kept):
        note("unpack", name, isinstance(kept, tuple))
        return kept[0] if isinstance(kept, tuple) else kept

    return saved_tensors_hooks(pack, unpack)


# --- modes, life and death, threads -----------------------------------------------------------------


class functions(TorchFunctionMode):  # noqa: N801
    """Notes each function of torch's that the program calls."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if not _probing:
            note("function", resolve_name(function) or error_text(function))
        return function(*args, **(kwargs or {}))


def _may_be_of_hooks():
    """Whether an alias may be made because hooks keep what is saved: docs/limits.md.

    It is made in backward, of the copy of what an operation in place has saved, or of a checkpoint's input.
    """
    if torch._C._current_graph_task_id() != -1 or log[-1:] == [("operation", "aten.clone.default")]:
        return True
    return any(code.co_name == "save_inputs" for code in _codes())


def _codes():
    frame = sys._getframe()
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


class operations(TorchDispatchMode):  # noqa: N801
    """Notes each operation of torch's that runs."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if not _probing and not (operation is torch.ops.aten.detach.default and _may_be_of_hooks()):
            note("operation", str(operation))
        return operation(*args, **(kwargs or {}))


def follow(tensor, name):
    """Note when a tensor dies."""
    weakref.finalize(tensor, log.append, ("dead", name)).atexit = False
    note("weak references", weakref.getweakrefcount(tensor))


def forget(*names):
    """Delete variables: the step is over."""
    for name in names:
        globals().pop(name, None)


def alive():
    """How many tensors the collector knows."""
    gc.collect()
    note("alive", sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects()))


def in_thread(run):
    def going_on():
        with caught():
            run()

    thread = threading.Thread(target=going_on)
    thread.start()
    thread.join()


class _WithValues(torch.autograd.Function):
    @staticmethod
    def forward(ctx, history, values):
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def with_values(tensor, values):
    """What a write that autograd does not record leaves: the history of ``tensor``, and other numbers."""
    return _WithValues.apply(tensor, values)


torch.manual_seed(0)
torch.set_warn_always(True)
