"""Version counters that stand for two memories.

``v.data = new`` gives ``v`` other memory, and leaves it the counter that it shares with its base, its
views and its detached twins, which keep the old one. From then on a write to either memory moves the
counter of both, and a saved tensor's counter may have moved although nothing has touched its memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch

from ..torch_internals import compat
from ._storage import StorageLog
from ._write_event import WriteEvent
from .saved import SavedTensor

_MOST_WRITES = 256
_MOST_STORAGES = 4096
"""Beyond these bounds what is known is forgotten: a counter that moved is then refused, as torch does."""


class _SharedCounter:
    """One counter, and the storages that it stands for."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.owner = id(tensor)
        """Identity of the tensor. No weak reference, which ``torch.utils.swap_tensors`` would refuse."""
        self.counter = compat.counter_of(tensor)
        """A tensor without memory, which has the same counter and outlives the one that was exchanged."""
        self.writes: deque[tuple[int, WriteEvent]] = deque(maxlen=_MOST_WRITES)
        """What moved the counter, oldest first, each with the storage that was written."""


class _UncertainCount:
    """In place of the log of a storage, for a write of which it shows only afterwards how often it has moved
    the counter: ``_foreach_add_``.
    """

    def __init__(self, shared: _SharedCounter, key: int, event: WriteEvent) -> None:
        self._shared = shared
        self._written = key, event
        self._log: StorageLog | None = None
        self._before = 0

    def over(self, log: StorageLog | None) -> _UncertainCount:
        """The same, for the storage's own log."""
        self._log, self._before = log, 0 if log is None else log.bumps
        return self

    @property
    def bumps(self) -> int:
        return 0 if self._log is None else self._log.bumps

    def settle(self, bumps: int, *, by_last_write: bool = False) -> None:
        """As for ``StorageLog``; one that is written twice in a call is settled twice by the same count."""
        if self._log is not None:
            self._log.settle(bumps, by_last_write=by_last_write)
        writes, since = self._shared.writes, self._written[1].version
        noted = sum(event.version >= since for _, event in writes)
        writes.extend([self._written] * (bumps - self._before - noted))


class SharedCounters:
    """The counters of one session that stand for two memories."""

    def __init__(self) -> None:
        self._by_storage: dict[int, _SharedCounter] = {}

    def exchanged(self, tensor: torch.Tensor, old: int, new: int) -> None:
        """``tensor`` leaves the storage ``old``, which others hold, for ``new``."""
        if tensor.is_inference():
            return  # it has no counter
        shared = self._by_storage.get(old)
        # The version, because another tensor may have got the identity of a dead one.
        if shared is None or shared.owner != id(tensor) or shared.counter._version != tensor._version:
            shared = _SharedCounter(tensor)
        if len(self._by_storage) > _MOST_STORAGES:
            self._by_storage.clear()
        self._by_storage[old] = self._by_storage[new] = shared

    def written(
        self, tensor: torch.Tensor, key: int, event: Callable[[], WriteEvent], bumps: bool
    ) -> _UncertainCount | None:
        """``tensor``, of storage ``key``, is about to be written.

        Returns:
            Whom to tell of it afterwards, where it isn't known beforehand whether that moves its counter.
        """
        shared = self._by_storage.get(key)
        if shared is None or tensor.is_inference():
            return None  # an inference tensor, that lies where another lay, has no counter
        if shared.counter._version != tensor._version:
            return None
        if not bumps:
            return _UncertainCount(shared, key, event())
        shared.writes.append((key, event()))
        return None

    def writes_elsewhere(self, saved: SavedTensor) -> list[WriteEvent]:
        """Writes to other memory that have moved its counter since it was saved, oldest first."""
        key = compat.storage_key_or_none(saved.alias)
        shared = None if key is None else self._by_storage.get(key)
        if shared is None or shared.counter._version != saved.alias._version:
            return []
        return [event for other, event in shared.writes if other != key and event.version >= saved.version]
