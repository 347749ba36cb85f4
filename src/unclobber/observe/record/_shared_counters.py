"""Version counters that count the writes to two memories.

``v.data = new`` gives ``v`` other memory, and leaves it the counter that it shares with its base, its
views and its detached twins, which keep the old memory. From then on a write to either memory moves the
counter of both, and a saved tensor's counter may have moved although nothing has touched its memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch

from ...torch_internals import compat
from ._write_event import WriteEvent
from .saved import SavedTensor, StorageLog

_MOST_WRITES = 256
_MOST_STORAGES = 4096
"""Beyond these bounds notes are forgotten. A counter that moved is then refused, as torch refuses it."""


class _SharedCounter:
    """A version counter of several storages, and the writes that moved it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.owner = id(tensor)
        """Identity of the tensor. No weak reference, which ``torch.utils.swap_tensors`` would refuse."""
        self.counter = compat.tensors.counter_of(tensor)
        """A tensor without memory that has the counter and outlives the tensor whose memory was exchanged."""
        self.writes: deque[tuple[int, WriteEvent]] = deque(maxlen=_MOST_WRITES)
        """Writes that moved the counter, oldest first, each with the key of the written storage."""


class _UncertainCount:
    """Stand-in for a storage's log, for a write whose number of counter bumps is known only afterwards
    (``_foreach_add_``)."""

    def __init__(self, shared: _SharedCounter, key: int, event: WriteEvent) -> None:
        self._shared = shared
        self._written = key, event
        self._log: StorageLog | None = None
        self._before = 0

    def over(self, log: StorageLog | None) -> _UncertainCount:
        self._log, self._before = log, 0 if log is None else log.bumps
        return self  # it is corrected along with the counter

    @property
    def bumps(self) -> int:
        return 0 if self._log is None else self._log.bumps

    def settle(self, bumps: int, *, by_last_write: bool = False) -> None:
        """Enter the bumps of the finished call, as ``StorageLog.settle`` does.

        A tensor that is written twice in a call is settled twice with the same count.
        """
        if self._log is not None:
            self._log.settle(bumps, by_last_write=by_last_write)
        writes, since = self._shared.writes, self._written[1].version
        noted = sum(event.version >= since for _, event in writes)
        writes.extend([self._written] * (bumps - self._before - noted))


class SharedCounters:
    """All version counters of one session that count writes to several memories."""

    def __init__(self) -> None:
        self._by_storage: dict[int, _SharedCounter] = {}

    def exchanged(self, tensor: torch.Tensor, old: int, new: int) -> None:
        """Note that ``tensor`` leaves the storage ``old``, which other tensors hold, for ``new``."""
        if tensor.is_inference():
            return  # it has no counter
        shared = self._by_storage.get(old)
        # Compare the version, too, because a new tensor may have the identity of a dead one.
        if shared is None or shared.owner != id(tensor) or shared.counter._version != tensor._version:
            shared = _SharedCounter(tensor)
        if len(self._by_storage) > _MOST_STORAGES:
            self._by_storage.clear()
        self._by_storage[old] = self._by_storage[new] = shared

    def written(
        self, tensor: torch.Tensor, event: Callable[[], WriteEvent], bumps: bool
    ) -> _UncertainCount | None:
        """Note that ``tensor`` is about to be written.

        Returns:
            A stand-in for the storage's log that is settled afterwards, if it isn't known beforehand whether
            the write moves the counter. None if it is known, or the counter is not shared.
        """
        key = compat.tensors.storage_key_or_none(tensor)
        shared = None if key is None else self._by_storage.get(key)
        if key is None or shared is None or tensor.is_inference():
            return None  # an inference tensor at a reused storage address has no counter
        if shared.counter._version != tensor._version:
            return None
        if not bumps:
            return _UncertainCount(shared, key, event())
        shared.writes.append((key, event()))
        return None

    def writes_elsewhere(self, saved: SavedTensor) -> list[WriteEvent]:  # oldest first
        key = compat.tensors.storage_key_or_none(saved.alias)
        shared = None if key is None else self._by_storage.get(key)
        if shared is None or shared.counter._version != saved.alias._version:
            return []
        return [event for other, event in shared.writes if other != key and event.version >= saved.version]
