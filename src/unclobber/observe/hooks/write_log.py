"""Log of the writes to a few given tensors, for the short time that a callback of the program runs.

The ledger follows memory that autograd saved. The input of a custom Function's ``forward``, or the gradient
that a hook gets, need not be saved. These are followed here, and copied only on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from ...source import Stack, of_program
from ...torch_internals import compat
from ..record import Region, region_of
from ..record.content import plain_key_or_none
from ..record.saved import same_memory
from . import kernels
from .kernels import Listener


class FollowedWrite(NamedTuple):
    """A write to a followed storage."""

    key: int  # key of the storage
    operation: str
    stack: Stack
    region: Region | None
    """The bytes that were written; None if unknown."""
    shifts: bool = False
    """Whether its derivative by the old value is 1: a constant was added, or the same put back."""


class WriteLog:
    """List of the ``writes`` to tensors, which it follows while it is entered.

    Args:
        values: The tensors among these are followed. They must live as long as the block.
        keep: Called with a tensor just before the first write to its storage; returns whether to copy it.
    """

    __slots__ = ("_copies", "_keep", "_settled", "values", "writes")

    def __init__(self, values: Sequence[Any], *, keep: Callable[[torch.Tensor], bool]) -> None:
        self.writes: list[FollowedWrite] = []
        self.values = values
        self._keep = keep
        self._copies: dict[int, torch.Tensor] = {}  # by identity of the followed tensor
        self._settled: set[int] = set()  # storages that have been written to, or were given to `leave`

    def __enter__(self) -> WriteLog:
        followed.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        followed.remove(self)

    def following(self, key: int) -> list[torch.Tensor]:
        tensors = (value for value in self.values if isinstance(value, torch.Tensor))
        return [tensor for tensor in tensors if compat.tensors.storage_key_or_none(tensor) == key]

    def note(self, tensors: list[torch.Tensor], write: FollowedWrite) -> None:
        """Log a write that is about to happen to the storage of ``tensors``, all that are followed there."""
        if write.key not in self._settled:
            self._settled.add(write.key)
            for tensor in tensors:
                if id(tensor) not in self._copies and self._keep(tensor) and compat.tensors.is_plain(tensor):
                    with torch.no_grad(), compat.dispatcher.unseen_by_torch():
                        self._copies[id(tensor)] = tensor.clone()
        self.writes.append(write)

    def before(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return what a followed tensor held before the first write to its storage; None if not copied."""
        return self._copies.get(id(tensor))

    def writes_to(self, tensor: torch.Tensor) -> list[FollowedWrite]:
        """Return the writes to elements of a tensor, not those to other elements of its storage."""
        key = plain_key_or_none(tensor)
        region = None if key is None else region_of(tensor)
        return [
            write
            for write in self.writes
            if write.key == key and (region is None or write.region is None or write.region.overlaps(region))
        ]

    def leave(self, tensors: Iterable[torch.Tensor]) -> None:  # later writes are still logged
        for tensor in tensors:
            if (key := plain_key_or_none(tensor)) is not None:
                self._settled.add(key)


class _Follower(Listener):
    """Listener for all logs. While there is none, it costs a write three checks of empty containers."""

    follows_values = True

    def __init__(self) -> None:
        self.watched: list[WriteLog] = []

    def before_write(
        self, tensor: torch.Tensor, operation: str, bumps: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Log the write in each log that follows the storage."""
        key = compat.tensors.storage_key_or_none(tensor)
        if key is None:
            return
        write: FollowedWrite | None = None
        # A custom Function's call that the native core observes makes its log only here.
        for log in [getattr(call, "log", call) for call in self.watched]:
            if tensors := log.following(key):
                if write is None:
                    region = region_of(tensor) if compat.tensors.is_plain(tensor) else None
                    write = FollowedWrite(key, operation, of_program(), region, _shifts(operation, args))
                log.note(tensors, write)


def _shifts(operation: str, args: tuple[Any, ...]) -> bool:
    """Return whether the derivative of a write by the old value is 1, as after adding a constant."""
    if len(args) < 2:
        return False
    target, other = args[:2]
    if operation in ("add_", "sub_"):
        return not (isinstance(other, torch.Tensor) and other.requires_grad)
    # `x[0] += 1` adds to a view, and then copies the view onto itself
    return operation == "copy_" and isinstance(other, torch.Tensor) and same_memory(other, target)


_follower = _Follower()
followed = _follower.watched
kernels.accompany(_follower)
