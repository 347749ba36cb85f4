"""torch.compile, torch.func, fake tensors and trees: the layers between a program and its operations."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch.utils import _pytree

from ..patches import Patches

# Leaves of nested tuples, lists and dicts, registered classes included. Private and stable since 1.8; until
# ``torch.utils.pytree`` is stable.
tree_map: Callable[[Callable[[Any], Any], Any], Any] = _pytree.tree_map
tree_leaves: Callable[[Any], list[Any]] = _pytree.tree_leaves
map_tensors: Callable[[Callable[[Any], Any], Any], Any] = functools.partial(
    _pytree.tree_map_only, torch.Tensor
)


def tensors_in(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


_functorch: Any = torch._C._functorch
_DYNAMO = "torch._dynamo"
_CALLS_COMPILED = ("__compiled_fn_", "__resume_at_")
"""Prefixes of the global names in Dynamo's code objects (torch/_dynamo/output_graph.py; seen since 2.0)."""


def has_dynamo() -> bool:
    return _DYNAMO in sys.modules


class without_dynamo:  # noqa: N801  (a context manager)
    """Context in which Dynamo compiles nothing, as ``torch.compiler.disable`` makes it for one function.

    In a frame that it skips, as under a dispatch mode, it compiles the functions that are called next, even
    unclobber's, and refuses the program for their contents. Its own switch calls ``set_eval_frame``
    (since 2.0).
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before: Any = torch._C._dynamo.eval_frame.set_eval_frame(None)

    def __exit__(self, *error: Any) -> None:
        torch._C._dynamo.eval_frame.set_eval_frame(self._before)


def is_compiled_code(code: CodeType) -> bool:
    """Return whether Dynamo made this code object to replace a function that it has compiled."""
    return _DYNAMO in sys.modules and any(name.startswith(_CALLS_COMPILED) for name in code.co_names)


def is_of_aotautograd(code: CodeType) -> bool:
    """Return whether a code object runs graphs that AOTAutograd has divided, in torch/_functorch (2.0)."""
    return os.path.join("_functorch", "_aot_autograd", "") in code.co_filename


def compilations(since: int) -> Iterator[tuple[str, str, int]]:
    """Yield name, file and first line of each function that Dynamo has compiled since a moment.

    ``since`` is in microseconds since the epoch. Dynamo keeps its last 64 records (torch/_dynamo/utils.py,
    since 2.1). Records without an operation are left out, because they made no code.
    """
    if _DYNAMO not in sys.modules:
        return
    from torch._dynamo import utils

    for record in utils.get_compilation_metrics():
        began = record.start_time_us or 0
        if began >= since and record.fail_type is None and record.graph_op_count:
            yield record.co_name or "?", record.co_filename or "?", record.co_firstlineno or 0


def is_compilers_function(function: Any) -> bool:
    """Return whether a custom Function (its class or its node's) is AOTAutograd's, for compiled code."""
    module: str = getattr(function, "_forward_cls", function).__module__
    return module.startswith("torch._functorch.")


def operator_of(function: Any) -> str | None:
    """Return the operator, ``mylib::op``, that torch made a custom Function's class for.

    torch/_library/autograd.py makes one for each ``torch.library.custom_op``, also without a backward. Only
    its name shows that. Return None for a class of the program's.
    """
    if function.__module__ != "torch._library.autograd":
        return None
    made_for = "GeneratedBackwardFor_{}_default".format
    return next((op for op in OPDEFS if made_for(op.replace("::", "_")) == function.__name__), None)


def outside_transforms() -> Any:
    """Return a context outside of all transforms of ``torch.func`` (``pyfunctorch.py`` there, since 2.0)."""
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


def layers(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return a tensor and what its wrappers of ``torch.func`` hold; the last one has memory."""
    held = [tensor]
    while _functorch.is_functorch_wrapped_tensor(held[-1]):
        held.append(_functorch.get_unwrapped(held[-1]))
    return held


def wrapped_as(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor | None:
    """Return a plain tensor in the wrappers of ``like``; None if a derivative of a further transform, or of
    what is around them, would flow through ``like``, which ``value`` has no part in."""
    if any(level.key() == _functorch.TransformType.Jvp for level in _functorch.get_interpreter_stack() or ()):
        return None
    if not _functorch.is_functorch_wrapped_tensor(like):
        return None if like.requires_grad else value
    inner = _functorch.get_unwrapped(like)
    is_joined = _functorch.is_gradtrackingtensor(like) and inner.requires_grad
    lower = None if is_joined else wrapped_as(value, inner)
    return None if lower is None else rewrapped(like, lower)


def rewrapped(like: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return ``value`` in one wrapper, of the level of ``like``, where it has no history."""
    dead, level = _functorch.is_dead_tensor_wrapper(like), _functorch.maybe_get_level(like)
    if not _functorch.is_gradtrackingtensor(like):
        made: torch.Tensor = _functorch._add_batch_dim(value, _functorch.maybe_get_bdim(like), level)
    else:  # under `vmap` torch accepts no bare tensor with a batch, also if the transform has ended
        made = _functorch._wrap_for_grad(value, _functorch._grad_increment_nesting() if dead else level)
    if dead:
        _functorch._grad_decrement_nesting()
    return made


def fake_mode() -> Any:
    """Return a mode in which new tensors have shapes and no memory. Tensors made outside are accepted.

    ``torch._subclasses`` is private in name and documented:
    https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def fake_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of a fake run that would need a tensor's value."""
    from torch._subclasses import fake_tensor as fake

    return (
        fake.DataDependentOutputException,
        fake.DynamicOutputShapeException,
        fake.UnsupportedOperatorException,
    )


@contextlib.contextmanager
def converting_fake_modules() -> Iterator[None]:
    """Let ``module.to(…)`` and its like replace fake parameters by new ones, in this context.

    ``Module._apply`` swaps a fake parameter with its converted twin, which torch itself refuses
    because the fake mode holds weak references ("Couldn't swap Linear.weight", torch 2.13). Delete
    when ``nn.Linear(3, 3).to(torch.bfloat16)`` works under FakeTensorMode.
    """

    def _apply(self: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
        """Convert parameters and buffers as torch's ``_apply`` does, into new parameters."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                with torch.no_grad():
                    converted = fn(parameter)
                self._parameters[name] = torch.nn.Parameter(converted, parameter.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    with Patches() as patches:
        patches.replace(torch.nn.Module, "_apply", _apply)
        yield
