"""Custom autograd Functions: what they put on ``ctx``, and what they write in place.

``ctx.save_for_backward`` goes through the saved-tensor hooks; ``ctx.x = t`` does not, and torch
never checks it. While a session is active, an attribute that is set during ``forward`` is noted
with its line, entered in the ledger when ``forward`` has ended (a buffer may be filled after it was
put on ``ctx``), and looked at again when ``backward`` is about to run. Only programs with custom
Functions pay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from ..record import SavedTensor, Standing, each_once
from ..source import Stack, frames
from ..torch_internals import compat
from ..torch_internals.patches import Patches
from . import _nested, saves, unmarked
from . import gradients as _gradients
from ._stale_reads import StaleReads, StaleTensor
from .conflicts import Conflicts, DirtyNotReturned, StaleOnCtx
from .write_log import FollowedWrite, WriteLog

_STASH = "_unclobber_stash"
"""Where on ``ctx`` our records lie; they die with the node."""

_NOT_RETURNED = "Some elements marked as dirty during the forward method were not returned"


class Stashed:
    """A tensor that ``forward`` left on ``ctx``, itself or inside of something."""

    __slots__ = ("conflicts", "path", "saved", "ways")

    def __init__(self, conflicts: Conflicts, found: _nested.Found, saved: SavedTensor) -> None:
        self.conflicts = conflicts
        self.path = found.path
        """``x``, ``xs[0]``, ``cache["k"]``."""
        self.ways = found.ways
        self.saved = saved
        """Its ``origin`` is the tensor: what the program has dropped, ``backward`` can't read."""


class _Forward:
    """One running ``forward``."""

    def __init__(self, conflicts: Conflicts, args: tuple[Any, ...]) -> None:
        self.conflicts = conflicts
        self.inputs = [arg for arg in args if isinstance(arg, torch.Tensor)]
        self.log = WriteLog(self.inputs, keep=unmarked.may_matter)
        self.attributes: dict[int, tuple[Any, dict[str, Stack]]] = {}
        """By identity of the ctx: the ctx, and where each attribute was last set."""
        self.dirty: tuple[torch.Tensor, ...] = ()

    def set(self, ctx: Any, name: str, value: Any) -> None:
        if name == "dirty_tensors":
            self.dirty = tuple(value)
            self.log.leave(self.dirty)
        elif type(value) not in _nested.ATOMS and name in ctx.__dict__:
            self.attributes.setdefault(id(ctx), (ctx, {}))[1][name] = frames.of_program()

    def finish(self) -> None:
        """``forward`` has returned: what is on ``ctx`` now is what ``backward`` counts on."""
        for tensor in self.dirty:
            self.conflicts.ledger.marked_dirty(tensor)
        for ctx, stacks in self.attributes.values():
            found = _nested.tensors_of(ctx, stacks)
            if found:
                file = self.conflicts.ledger.file
                ctx.__dict__[_STASH] = [
                    Stashed(self.conflicts, one, file(one.tensor, stacks[one.attribute])) for one in found
                ]

    def writes_to_dirty(self) -> list[FollowedWrite]:
        """The writes to the one tensor that was marked dirty; none where it isn't one."""
        if len(self.dirty) != 1:
            return []
        key = compat.storage_key(self.dirty[0])
        return [write for write in self.log.writes if write.key == key]


class _RunningForwards(threading.local):
    def __init__(self) -> None:
        self.forwards: list[_Forward] = []


_thread = _RunningForwards()


def install(patches: Patches) -> None:
    """Patch the methods that every custom Function goes through, however it was bound."""
    # torch leaves the class without an `apply` of its own: calls go on to the C++ one above it
    patches.replace(compat.function_home(), "apply", classmethod(_apply(compat.function_home())))
    context = compat.context_home()
    patches.replace(context, "__setattr__", _set_attribute(context.__setattr__))
    for name in compat.BACKWARD_METHODS:
        patches.replace(context, name, _run_backward(getattr(context, name)))


def _apply(home: Any) -> Callable[..., Any]:

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        run = super(home, cls).apply
        hooks = saves.innermost()
        conflicts = None if hooks is None else hooks.conflicts
        if conflicts is None or compat.is_compilers_function(cls):
            return run(*args, **kwargs)
        forward = _Forward(conflicts, args)
        _thread.forwards.append(forward)
        try:
            with forward.log:
                result = run(*args, **kwargs)
        except RuntimeError as error:
            if _NOT_RETURNED in str(error):
                writes = forward.writes_to_dirty()
                conflicts.on(DirtyNotReturned(error, cls.__name__, writes, frames.of_program()))
            raise
        finally:
            _thread.forwards.pop()
        forward.finish()
        if forward.log.writes and torch.is_grad_enabled():
            unmarked.note(
                conflicts, cls.__name__, args, forward.dirty, forward.log, result, frames.of_program()
            )
        return result

    return apply


def _set_attribute(inherited: Callable[..., None]) -> Callable[..., None]:
    def set_attribute(ctx: Any, name: str, value: Any) -> None:
        inherited(ctx, name, value)
        if _thread.forwards:
            _thread.forwards[-1].set(ctx, name, value)

    return set_attribute


def _run_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_backward(ctx: Any, *gradients: Any) -> Any:
        if compat.is_compilers_function(type(ctx)):
            return original(ctx, *gradients)
        stale = [
            (stashed, standing)
            for stashed in ctx.__dict__.get(_STASH, ())
            if (standing := stashed.conflicts.stale(stashed.saved, "ctx")) is not None
        ]
        hooks = saves.innermost()
        conflicts = None if hooks is None else hooks.conflicts

        def run(*values: Any) -> Any:
            if conflicts is None:
                return original(ctx, *values)
            return _gradients.watched(conflicts, lambda *g: original(ctx, *g), values)

        return _run_with_stale(ctx, stale, run, gradients) if stale else run(*gradients)

    return run_backward


def _run_with_stale(
    ctx: Any, stale: list[tuple[Stashed, Standing]], run: Callable[..., Any], gradients: tuple[Any, ...]
) -> Any:
    """Run a backward whose ``ctx`` holds changed tensors; a read of one of the changes is told.

    Where the session repairs, ``backward`` finds the values that ``forward`` left instead.
    """
    watched: list[StaleTensor] = []
    put_back: list[Callable[[], None]] = []
    for stashed, standing in stale:
        tensor = stashed.saved.origin()
        if tensor is None:
            continue
        before = standing.value if standing.value is not None else stashed.saved.alias
        now = tensor.detach()
        if before.shape != now.shape or before.dtype != now.dtype or not compat.is_plain(now):
            continue
        name = f"ctx.{stashed.path}"

        def told(
            read: Stack, stashed: Stashed = stashed, standing: Standing = standing, name: str = name
        ) -> None:
            stashed.conflicts.on(StaleOnCtx(standing, name, type(ctx).__name__))

        if stashed.conflicts.repairs:
            value = _copy_like(before, now)
            if _is_of_a_graph(tensor):
                put_back.append(compat.lent(tensor, value))
            else:
                put_back.extend(_nested.exchange(ctx, stashed.ways, tensor, value))
            # The read of the right value is what tells that the wrong one would have been read.
            watched.append(StaleTensor(value, now, told, stands_for=now))
        else:
            watched.append(StaleTensor(now, before, told))
    reads = StaleReads(watched)
    try:
        with reads:
            result = run(*gradients)
    finally:
        for undo in reversed(put_back):
            undo()
    with torch.no_grad():
        for replay in reads.replays:  # a counter that backward counts up, a buffer that it fills
            replay()
    return result


def _copy_like(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A copy of ``values``, laid out as ``like`` unless that is expanded where they are not."""
    once = each_once(values)
    if once.shape != each_once(like).shape or any(t.is_conj() or t.is_neg() for t in (like, values)):
        return values.clone()
    with torch.no_grad():
        copy = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=like.device)
        each_once(copy).copy_(once)
    return copy


def _is_of_a_graph(tensor: torch.Tensor) -> bool:
    """Whether ``backward`` may ask for gradients of this very tensor: one of a graph that ``forward`` kept.

    A parameter is read, and others may write to it meanwhile.
    """
    return tensor.requires_grad and not isinstance(tensor, torch.nn.Parameter)
