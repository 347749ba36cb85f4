"""Who writes to a few given tensors, for the short time that a user's callback runs.

The ledger follows memory that autograd saved. The input of a custom Function's ``forward`` or the
gradient that a hook is handed need not be saved by anybody: these few are followed here, with no
copy of anything unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from ..source import Stack, frames
from ..torch_internals import compat
from ..torch_internals.patches import Patches
from . import fallback
from .kernels import Listener


class FollowedWrite(NamedTuple):
    """One write to a followed storage."""

    key: int
    """Of the storage."""
    operation: str
    stack: Stack
    before: torch.Tensor | None
    """What the followed tensor held before the first write, where that was asked for."""
    shifts: bool = False
    """Whether its derivative by the old value is 1: a constant was added, or the same put back."""


class WriteLog:
    """Follows tensors from ``with`` to the end of it; ``writes`` is the answer.

    Args:
        values: The tensors among these are followed. They must live as long as the block.
        keep: Which of them are to be copied just before their first write; asked then.
    """

    __slots__ = ("_keep", "_settled", "_values", "writes")

    def __init__(self, values: Sequence[Any], *, keep: Callable[[torch.Tensor], bool] | None = None) -> None:
        self.writes: list[FollowedWrite] = []
        self._values = values
        self._keep = keep
        self._settled: set[int] = set()
        """Storages that have been written to, or left."""

    def __enter__(self) -> WriteLog:
        _follower.watched.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _follower.watched.remove(self)

    def following(self, key: int) -> list[torch.Tensor]:
        """Its tensors that have the storage of this identity."""
        return [
            value
            for value in self._values
            if isinstance(value, torch.Tensor) and compat.storage_address(value) == key
        ]

    def note(self, key: int, tensors: list[torch.Tensor], operation: str, stack: Stack, shifts: bool) -> None:
        """The storage of ``tensors``, all that it follows there, is about to be written to."""
        before = None
        if self._keep is not None and key not in self._settled:
            self._settled.add(key)
            for tensor in tensors:
                if self._keep(tensor) and compat.is_plain(tensor):
                    with torch.no_grad(), compat.unseen_by_torch():
                        before = tensor.clone()
                    break
        self.writes.append(FollowedWrite(key, operation, stack, before, shifts))

    def leave(self, tensors: Iterable[torch.Tensor]) -> None:
        """What these hold before their first write is not asked for any more."""
        for tensor in tensors:
            if (key := storage_of(tensor)) is not None:
                self._settled.add(key)


def storage_of(tensor: torch.Tensor) -> int | None:
    """The storage's identity; None for layouts without one."""
    return compat.storage_key_or_none(tensor) if compat.is_plain(tensor) else None


class _Follower(Listener):
    """The one listener for all logs; idle, it costs a write three looks at empty containers."""

    def __init__(self) -> None:
        self.pending: tuple[Any, ...] = ()
        self.logs: dict[int, Any] = {}
        self.watched: list[WriteLog] = []

    def before_write(
        self,
        tensor: torch.Tensor,
        operation: str,
        bumps: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        key = compat.storage_address(tensor)
        if key is None:
            return
        stack: Stack | None = None
        for log in self.watched.copy():
            if tensors := log.following(key):
                stack = stack or frames.of_program()
                log.note(key, tensors, operation, stack, _shifts(operation, args))


def _shifts(operation: str, args: tuple[Any, ...]) -> bool:
    if len(args) < 2:
        return False
    target, other = args[:2]
    if operation in ("add_", "sub_"):
        return not (isinstance(other, torch.Tensor) and other.requires_grad)
    # `x[0] += 1` adds to a view, and then copies the view onto itself
    return (
        operation == "copy_"
        and isinstance(other, torch.Tensor)
        and compat.storage_address(other) == compat.storage_address(target)
        and other.storage_offset() == target.storage_offset()
        and other.shape == target.shape
        and other.stride() == target.stride()
    )


_follower = _Follower()


def install(patches: Patches) -> None:
    """Hear of writes while somebody looks."""
    patches.when_awake(_begin)


def _begin() -> Callable[[], None]:
    fallback.listen(_follower)
    return lambda: fallback.unlisten(_follower)
