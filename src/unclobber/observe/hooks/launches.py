"""Launches of Triton kernels, which write through an address and move no version counter.

Each launch ends in the ``run`` of a ``JITFunction``, or in the call of a ``GridExecutor`` under
``TRITON_INTERPRET=1``; ``Autotuner`` and ``Heuristics`` call it with what they chose. Before it runs, the
listeners are notified of a write to the whole memory of each tensor that the kernel stores to, because from
an address it may go anywhere. Not seen are a ``CompiledKernel`` that the program runs by itself, and kernels
of torch's compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from ...model import Frame
from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..record import KernelName
from . import kernels
from ._on_import import on_import
from ._triton_stores import function_of, stores_of

_LAUNCHERS = {"triton.runtime.jit": "JITFunction.run", "triton.runtime.interpreter": "GridExecutor.__call__"}
"""Class and method, by module."""
_NUMBERS = (int, float, str)  # types of most arguments that are no tensors, which are sorted out first


def install(patches: Patches) -> None:
    """Precede launches by a notification; wait for Triton's import while a client is notified."""

    def wrap(module: ModuleType) -> None:
        name, _, method = _LAUNCHERS[module.__name__].partition(".")
        launcher = getattr(module, name, None)
        if hasattr(launcher, method):
            patches.stand_in(launcher, method, _run, method == "__call__")

    on_import(patches, _LAUNCHERS, wrap)


def _run(original: Callable[..., Any], interprets: bool) -> Callable[..., Any]:
    """Wrap the method that runs a kernel, which is compiled or interpreted."""

    def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        """Notify of what the kernel stores to, and run it."""
        if not kernels.listeners.now or kwargs.get("warmup"):  # a warm-up only compiles
            return original(kernel, *args, **kwargs)
        if not kernels.inside_operation():
            _notify(kernel, args, kwargs)
        if not interprets:
            return original(kernel, *args, **kwargs)
        # The interpreter ends with a `copy_` of each whole storage, whose bytes have changed already.
        with compat.dispatcher.unseen_by_torch():
            return original(kernel, *args, **kwargs)

    return run


def _notify(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notify the listeners of the memory that a launch is about to write."""
    listeners = [other for other in kernels.listeners.now if other.pending or other.watched or other.logs]
    if not listeners or not kernels.concerns_a_listener(map(_tensor, (*args, *kwargs.values()))):
        return
    given = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
    tensors = {name: tensor for name, value in given.items() if (tensor := _tensor(value)) is not None}
    function = function_of(kernel)
    path, first = function.__code__.co_filename, function.__code__.co_firstlineno
    try:
        stores = stores_of(function, given)
    except Exception:  # without its source a kernel may store to each
        stores = dict.fromkeys(tensors, first)
    memory: dict[int, tuple[torch.Tensor, int]] = {}
    for name, line in stores.items():
        tensor = tensors.get(name)
        if tensor is not None and compat.tensors.is_plain(tensor):
            memory.setdefault(tensor.untyped_storage()._cdata, (tensor, line))
    for tensor, line in memory.values():
        operation = KernelName(function.__name__, Frame(path, line, function.__qualname__))
        whole = compat.dispatcher.whole(tensor)
        for listener in listeners:
            listener.before_write(whole, operation, False, (), {})


def _tensor(value: Any) -> torch.Tensor | None:  # itself, or the base of a descriptor or a reinterpreted one
    if isinstance(value, torch.Tensor):
        return value
    base = None if isinstance(value, _NUMBERS) else getattr(value, "base", None)
    return base if isinstance(base, torch.Tensor) else None
