"""Checkpoints: does the recomputation read what its forward read?

A checkpoint keeps the inputs of a part of the forward pass and runs it again during backward. Its inputs
are saved like any tensor and checked. What the code reaches otherwise (a closure, a module's parameters and
buffers, a global) is not. An optimizer step in between makes the second run compute other values than the
first, and torch is silent (test_a_checkpoint_recomputes_from_what_is_there_by_then). In a session, the
tensors that the code can reach are entered in the ledger when the checkpoint begins. If one has changed
when the code runs again, that run is observed for reads of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from ...source import Stack, is_library, of_program
from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..record import SavedTensor, SaveState
from . import saves
from ._stale_reads import StaleReads, StaleTensor
from .conflicts import StaleInCache, StaleInRecompute

_DEEPEST = 5
_LONGEST = 1000
"""Containers beyond this length are not looked into."""


def install(patches: Patches) -> None:
    """Replace torch's two functions that get the code to run again."""
    patches.stand_in(*compat.entries.CHECKPOINT, _generator)
    patches.stand_in(*compat.entries.REENTRANT_CHECKPOINT, _forward)
    patches.stand_in(compat.entries.CACHED_TENSOR, "__init__", _cached)
    patches.stand_in(compat.entries.CACHED_TENSOR, "get_val", _read_from_cache)


def _generator(original: Callable[..., Any]) -> Callable[..., Any]:
    def generator(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(_recomputed(function, torch.is_grad_enabled()), *args, **kwargs)

    return generator


def _forward(original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(ctx: Any, function: Callable[..., Any], *args: Any) -> Any:
        return original(ctx, _recomputed(function, any(ctx.needs_input_grad)), *args)

    return forward


def _recomputed(function: Callable[..., Any], recorded: bool) -> Callable[..., Any]:
    hooks = saves.innermost()
    if hooks is None or not recorded:
        return function
    return _Recomputed(function, hooks, of_program())


_CACHED = "_unclobber_cached"
"""Attribute of a tensor in selective checkpointing's cache: its session, save record and operation."""


def _cached(original: Callable[..., Any]) -> Callable[..., Any]:
    def made(entry: Any, value: Any) -> None:
        original(entry, value)
        hooks = saves.innermost()
        if hooks is not None and isinstance(value, torch.Tensor):
            stack, operation = compat.entries.below_mode(of_program()), compat.entries.cached_operation()
            with compat.entries.sharing_counters():
                saved = hooks.conflicts.ledger.file(value, stack)
            setattr(entry, _CACHED, (hooks.conflicts, saved, operation))

    return made


def _read_from_cache(original: Callable[..., Any]) -> Callable[..., Any]:
    def read(entry: Any, allow_cache_entry_mutation: bool) -> Any:
        """Return the cached tensor; under ``guard`` a copy of its old value, because the recomputation writes
        to it again."""
        if not hasattr(entry, _CACHED):  # made unobserved
            return original(entry, allow_cache_entry_mutation)
        conflicts, saved, operation = getattr(entry, _CACHED)
        state = conflicts.stale(saved, "cache")
        if state is None:
            return original(entry, allow_cache_entry_mutation)
        error = None
        try:
            value = original(entry, allow_cache_entry_mutation)
        except RuntimeError as refusal:
            error, value = refusal, entry.val
        conflicts.on(StaleInCache(state, operation, error))
        if conflicts.repairs:
            return (value if state.value is None else state.value).clone()
        if error is not None:
            raise error
        return value

    return read


class _Recomputed:
    """The code of a checkpoint, as torch runs it in both passes. The graph keeps this object alive."""

    def __init__(self, function: Callable[..., Any], hooks: saves.SavedTensorHooks, stack: Stack) -> None:
        """Enter all tensors that ``function`` can reach in the ledger, at ``stack``."""
        self._function = function
        self._hooks = hooks
        self._reached: list[tuple[torch.Tensor, SavedTensor]]
        with compat.unseen.unseen_by_functions():
            file = hooks.conflicts.ledger.file
            self._reached = [(tensor, file(tensor, stack)) for tensor in reachable(function)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the code; if a tensor that it can reach has changed, report a read of it."""
        with compat.unseen.unseen_by_functions():
            stale = self._stale()
        if not stale:
            return self._function(*args, **kwargs)
        hooks = saves.innermost() or self._hooks  # a device's thread has entered none
        with hooks.reporting_saves(), StaleReads(stale, until_saved=True):
            return self._function(*args, **kwargs)

    def _stale(self) -> list[StaleTensor]:
        """Return the reached tensors that have changed since the forward."""
        conflicts = self._hooks.conflicts
        stale = []
        for tensor, saved in self._reached:
            state = conflicts.stale(saved, "recompute")
            if state is None or not compat.tensors.is_plain(tensor):
                continue
            before = state.value if state.value is not None else saved.alias
            now = compat.unseen.alias_of(tensor)
            if before.shape == now.shape and before.dtype == now.dtype:

                def on_read(read: Stack, state: SaveState = state) -> None:
                    conflicts.on(StaleInRecompute(state, _inside(read)))

                stale.append(StaleTensor(now, before, on_read))
        return stale


def _inside(stack: Stack) -> Stack:
    """Return the frames of the code that is run again."""
    again = _Recomputed.__call__.__code__
    end = next((i for i, code in enumerate(stack[::2]) if code is again), 0)
    return stack[: 2 * end]


def reachable(function: Callable[..., Any]) -> list[torch.Tensor]:
    """Strided tensors that ``function`` can read without being given them: closures, defaults, its own
    object, modules and the globals that it names; a few levels deep, each memory once.

    Example:
        >>> scale = torch.ones(3)
        >>> [t is scale for t in reachable(lambda x: x * scale)]
        [True]
    """
    seen: set[int] = set()
    tensors: dict[int, torch.Tensor] = {}
    for tensor in _walk(function, seen, 0):
        if compat.tensors.is_plain(tensor) and not tensor.is_meta:
            tensors.setdefault(id(tensor), tensor)
    return list(tensors.values())


def _walk(value: Any, seen: set[int], depth: int) -> Iterator[torch.Tensor]:
    """Yield the tensors that ``value`` can reach, ``depth`` steps from the checkpoint's function."""
    if id(value) in seen or depth > _DEEPEST:
        return
    if isinstance(value, torch.Tensor):
        yield value
        return
    if value is None or isinstance(value, (int, float, complex, str, bytes, type)):
        return
    seen.add(id(value))
    if isinstance(value, torch.nn.Module):
        yield from _of_module(value, seen, depth)
    elif isinstance(value, MethodType):
        yield from _walk(value.__self__, seen, depth)
        yield from _walk(value.__func__, seen, depth)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, seen, depth)
    elif isinstance(value, functools.partial):
        yield from _all([value.func, value.args, value.keywords], seen, depth)
    elif isinstance(value, dict):
        yield from _all(list(value.values()), seen, depth)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from _all(list(value), seen, depth)
    elif type(value).__module__ != "builtins" and not is_library_object(value):
        yield from _all(list(getattr(value, "__dict__", {}).values()), seen, depth)


def _all(values: list[Any], seen: set[int], depth: int) -> Iterator[torch.Tensor]:
    for value in values[:_LONGEST]:
        yield from _walk(value, seen, depth + 1)


def _of_module(module: torch.nn.Module, seen: set[int], depth: int) -> Iterator[torch.Tensor]:
    """Yield the tensors of a module, its submodules and their ``forward``."""
    for part in module.modules():
        seen.add(id(part))
        yield from part.parameters(recurse=False)
        for name, buffer in part.named_buffers(recurse=False):
            # It is counted up in every forward, and read for the running statistics only.
            if name != "num_batches_tracked":
                yield buffer
        own = [value for name, value in vars(part).items() if not name.startswith("_")]
        yield from _all(own, seen, depth)
        forward = type(part).forward
        if isinstance(forward, FunctionType):
            yield from _walk(forward, seen, depth + 1)


def _of_function(function: FunctionType, seen: set[int], depth: int) -> Iterator[torch.Tensor]:
    """Yield the tensors in the closure, the defaults and the named globals of a function."""
    for cell in function.__closure__ or ():
        try:
            yield from _walk(cell.cell_contents, seen, depth + 1)
        except ValueError:
            continue  # not assigned yet
    yield from _all(list(function.__defaults__ or ()), seen, depth)
    yield from _all(list((function.__kwdefaults__ or {}).values()), seen, depth)
    # A library's globals are its own affair, as are its objects (`is_library_object`).
    if is_library(function.__code__):
        return
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield from _walk(function.__globals__[name], seen, depth + 1)


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= _names(const)
    return names


def is_library_object(value: Any) -> bool:
    """Return whether the object's class is torch's or another library's, whose attributes are its own
    affair."""
    init = getattr(type(value), "__init__", None)
    code = getattr(init, "__code__", None)
    if type(value).__module__.partition(".")[0] in ("torch", "numpy"):
        return True
    return code is not None and is_library(code)
