"""torch.compile, torch.func, fake tensors and trees: what stands between a program and its operations."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """``function`` over the leaves of nested tuples, lists and dicts, registered classes included.

    ``torch.utils._pytree`` is private and stable since 1.8; until ``torch.utils.pytree`` is stable.
    """
    from torch.utils import _pytree

    return _pytree.tree_map(function, tree)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    from torch.utils import _pytree

    return list(_pytree.tree_leaves(tree))


_DYNAMO = "torch._dynamo"
_CALLS_COMPILED = ("__compiled_fn_", "__resume_at_")
"""How the global names begin that Dynamo's code objects use (torch/_dynamo/output_graph.py,
resume_execution.py; seen since 2.0)."""


def has_dynamo() -> bool:
    """Whether Dynamo is imported."""
    return _DYNAMO in sys.modules


class without_dynamo:  # noqa: N801  (a context manager)
    """Keep Dynamo from compiling what runs here, as ``torch.compiler.disable`` does for one function.

    In a frame that it skips, as under a dispatch mode, it compiles what is called next: our functions,
    too, and refuses the program for what those do. ``set_eval_frame`` is what its own
    switch calls (since 2.0).
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before: Any = torch._C._dynamo.eval_frame.set_eval_frame(None)

    def __exit__(self, *error: Any) -> None:
        torch._C._dynamo.eval_frame.set_eval_frame(self._before)


def is_compiled_code(code: CodeType) -> bool:
    """Whether Dynamo made this code object to stand in for a function that it has compiled."""
    return _DYNAMO in sys.modules and any(name.startswith(_CALLS_COMPILED) for name in code.co_names)


def compilations(since: int) -> Iterator[tuple[str, str, int]]:
    """Name, file and first line of what Dynamo has compiled since a moment (microseconds, epoch).

    Dynamo keeps its last 64 records (torch/_dynamo/utils.py, since 2.1). Those without an operation
    made no code.
    """
    if _DYNAMO not in sys.modules:
        return
    from torch._dynamo import utils

    for record in utils.get_compilation_metrics():
        if _began(record) >= since and record.fail_type is None and record.graph_op_count:
            yield record.co_name or "?", record.co_filename or "?", record.co_firstlineno or 0


def _began(record: Any) -> float:
    """When a compilation began, in microseconds; up to 2.4 torch notes seconds. Delete that with 2.4."""
    if hasattr(record, "start_time_us"):
        return record.start_time_us or 0
    return (record.start_time or 0) * 1e6


def is_compilers_function(function: Any) -> bool:
    """Whether a custom Function (its class, or its node's) is AOTAutograd's wrapper of compiled code."""
    module: str = getattr(function, "_forward_cls", function).__module__
    return module.startswith("torch._functorch.")


def operator_of(function: Any) -> str | None:
    """Return the operator, ``mylib::op``, that torch made a custom Function's class for.

    torch/_library/autograd.py makes one for each ``torch.library.custom_op``, also without a backward, and
    tells it from others by its name alone. Return None for a class of the program's.
    """
    if function.__module__ != "torch._library.autograd":
        return None
    from torch._library.custom_ops import OPDEFS

    made = function.__name__
    return next(
        (op for op in OPDEFS if made == f"GeneratedBackwardFor_{op.replace('::', '_')}_default"), None
    )


def runs_transform(function: CodeType) -> bool:
    """Whether a frame's code is ``torch.func``'s own (torch/_functorch, since 2.0).

    AOTAutograd lies there, too.
    """
    folder, name = os.path.split(function.co_filename)
    return os.path.basename(folder) == "_functorch" and name in ("eager_transforms.py", "vmap.py", "apis.py")


def fake_mode() -> Any:
    """A mode in which new tensors have shapes and no memory; tensors made outside are refused.

    ``torch._subclasses`` is private in name and documented:
    https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def fake_errors() -> tuple[type[Exception], ...]:
    """What a fake run raises where it would need a value."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    )

    return (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


@contextlib.contextmanager
def converting_fake_modules() -> Iterator[None]:
    """Let ``module.to(…)`` and its like work on fake parameters: they are replaced by new ones.

    ``Module._apply`` swaps a fake parameter with its converted twin, which torch itself refuses
    because the fake mode holds weak references ("Couldn't swap Linear.weight", torch 2.13). Delete
    when ``nn.Linear(3, 3).to(torch.bfloat16)`` works under FakeTensorMode.
    """
    original = torch.nn.Module._apply

    def _apply(self: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
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

    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module._apply = original  # type: ignore[method-assign]
