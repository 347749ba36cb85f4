"""The log of one storage: its live saves, the writes to it, and the undo logs of overwritten values."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from ...source import Stack, user_frame
from ...torch_internals import compat
from ._extents import Extents
from ._region import Region, region_of
from ._undo import Account, OldValues, UndoLog, keep
from ._write_event import WriteEvent, folded, identity
from .saved import LogEntry, SavedTensor
from .selection import Selection, physical_take

_FIRST_PRUNE = 64
_LONGEST_LOG = 256


class StorageLog:
    """Saves and writes of one storage. Only its saves keep it alive."""

    __slots__ = (
        "__weakref__", "_by_extent", "_log_limit", "_saves", "_saves_limit", "_times", "_undo_logs",
        "bumps", "handed_out", "serial", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        """Make the log of a storage without saves and writes."""
        self.serial = 0  # number of writes seen so far
        self.bumps = 0  # number of version counter bumps of those writes
        self.writes: list[WriteEvent] = []
        self.handed_out: Stack | None = None
        """The last place, after a save, that handed the memory to code outside of torch."""
        self._log_limit = _LONGEST_LOG
        self._saves: list[weakref.ref[SavedTensor]] = []
        self._saves_limit = _FIRST_PRUNE
        self._times: dict[Any, tuple[int, int, Stack]] = {}
        """By a stack's ``_identity``: how often it ran, the serial of its last run, and the stack itself."""
        self._undo_logs: weakref.WeakValueDictionary[Any, UndoLog] = weakref.WeakValueDictionary()
        self._by_extent: Extents[UndoLog] = Extents()

    def add(self, saved: SavedTensor, moved: bool | None = None) -> LogEntry:
        """Enter a save. Return its entry. The storage must not have been written since it was made.

        ``moved``: whether its counter had moved before the next write, if that has run already.
        """
        nth = self.count_run(saved.stack)
        # A bump before the first observed write is one that no kernel saw.
        moved = saved.alias._version != saved.version if moved is None else moved
        entry = saved.entry = LogEntry(self, self.serial, self.bumps, nth, moved)
        self._saves.append(weakref.ref(saved))
        if len(self._saves) > self._saves_limit:
            self._saves = [ref for ref in self._saves if ref() is not None]
            self._saves_limit = 2 * len(self._saves) + _FIRST_PRUNE
        if not saved.alias.is_meta:
            self._open_undo_log(saved.alias, entry)
        return entry

    def count_run(self, stack: Stack) -> int:
        """Count that ``stack`` saves the present version; return how many versions it has saved."""
        # Saves of one stack between the same two writes count as one run of the line: an operation may save a
        # tensor twice.
        ran = identity(stack)
        times, at, _ = self._times.get(ran, (0, -1, ()))
        nth = times if at == self.serial else times + 1
        self._times[ran] = (nth, self.serial, stack)
        return nth

    def times(self, saved: SavedTensor) -> int:  # 1 if it isn't known
        place = user_frame(saved.stack)
        counts = [times for times, _, stack in self._times.values() if user_frame(stack) == place]
        # By several calls of one function, each has a count of its own, and no order is known.
        return counts[0] if len(counts) == 1 else 1

    def saves(self) -> Iterator[SavedTensor]:
        for ref in self._saves:
            saved = ref()
            if saved is not None:
                yield saved

    def forget(self, saved: SavedTensor) -> None:
        self._saves = [ref for ref in self._saves if ref() is not saved]

    def counter(self) -> int | None:
        for ref in reversed(self._saves):
            saved = ref()
            if saved is not None:
                return None if saved.alias.is_inference() else saved.alias._version
        return None

    def note(self, event: WriteEvent) -> None:
        """Enter a write that is about to happen. Fold the log if it has grown too long."""
        self.serial += 1
        self.bumps += event.bumps
        self.writes.append(event)
        if len(self.writes) > self._log_limit:
            # Folded, not cut: a loop that writes for ever must keep the lines of the writes that a save saw
            # (test_a_span_that_reaches_a_live_save_stays).
            oldest = min((saved.entry.since for saved in self.saves() if saved.entry), default=self.serial)
            self.writes = folded(self.writes, oldest)
            self._log_limit = 2 * len(self.writes) + _LONGEST_LOG

    def settle(self, bumps: int, *, by_last_write: bool = False) -> None:
        """Set the total of bumps after an operation whose number of bumps wasn't known beforehand."""
        if by_last_write and self.writes and bumps > self.bumps:
            self.writes[-1].bumps += bumps - self.bumps
        self.bumps = bumps

    def lose(self, size: int) -> None:
        """Forget values of saves beyond the first ``size`` bytes, which are about to be freed."""
        for saved in self.saves():
            entry = saved.entry
            if entry is None or entry.undo_log is None or entry.position is None:
                continue
            # A full copy outlives the memory: test_kept_before_the_memory_was_given_back.
            if entry.undo_log.region.hi <= size or entry.position.is_kept():
                continue
            entry.undo_log = entry.position = None
            entry.unseen = entry.given_back = True

    def preserve(
        self,
        account: Account,
        target: Any,
        region: Region,
        selection: Selection | None = None,
        shift: int = 0,
        copied: bool = False,
    ) -> None:
        """Keep what a write to ``target`` is about to destroy and live saves still hold.

        Copies the smaller of the overwritten elements and the overlapped saves.

        Args:
            selection: The elements of ``target`` that the write can change; None: all.
            shift: Bytes from the start of this storage to the start of ``target``'s storage, if that is
                another storage over the same memory.
            copied: Whether the write has run, and ``target`` is the copy that the native core made before.
        """
        # Entering this context costs as much as all else of a write that hits no save.
        if selection is None and not self._hit(region):
            return
        with compat.dispatcher.unseen_by_torch():
            if selection is not None:
                bounds = selection.bounds(target)
                undo_logs = [] if bounds is None else self._hit(bounds.moved(shift))
            else:
                undo_logs = self._hit(region)
            if not undo_logs or (copied and all(undo_log.knows(region) for undo_log in undo_logs)):
                return  # the native core makes no copy of what is recorded
            if not copied and region.hi - shift > target.untyped_storage().nbytes():
                return  # the storage was shrunk behind the tensor: reading it would leave its memory
            if not target.is_cpu and (stream := compat.tensors.current_stream(target)) is not None:
                for undo_log in undo_logs:
                    undo_log.streams.add(stream)
            data = None
            nbytes = region.nbytes
            if selection is not None:
                data = physical_take(selection, target)
                if data is not None and data.nbytes + selection.nbytes < nbytes:
                    nbytes = data.nbytes + selection.nbytes
                else:
                    selection = data = None
            # Elements that straddle this storage's elements can't be put back one by one
            # (test_elements_across_each_other), so the whole save is copied.
            whole_is_smaller = (
                shift % region.itemsize or sum(undo_log.region.nbytes for undo_log in undo_logs) <= nbytes
            )
            record: OldValues | None = None
            for undo_log in undo_logs:
                if undo_log.knows(region if selection is None else undo_log.region):
                    continue
                if (
                    whole_is_smaller
                    or undo_log.whole_only
                    or undo_log.recorded_bytes + nbytes > undo_log.region.nbytes
                ):
                    place, source = undo_log.region, undo_log.alias
                    if copied:  # of the same memory, perhaps as its transpose
                        source = target if place == region else target.as_strided(place.sizes, place.strides)
                    assert source is not None  # `_hit` gives open undo logs only
                    whole = keep(compat.tensors.physical(source))
                    undo_log.append(OldValues(account, place, undo_log.dtype, whole, full=True))
                else:
                    if record is None:  # one copy for all undo logs: test_one_copy_for_many_saves
                        old = keep(compat.tensors.physical(target) if data is None else data)
                        record = OldValues(account, region, target.dtype, old, selection)
                    undo_log.append(record)

    def _open_undo_log(self, alias: torch.Tensor, entry: LogEntry) -> None:
        """Give ``entry`` its position in the undo log of the alias's geometry. None if it has no elements."""
        region = region_of(alias)
        if region is None:
            return
        # Lazy conj and neg bits, too: equal memory then means other values (test_lazy_bits).
        key = (region, alias.dtype, compat.tensors.conj_neg_bits(alias))
        undo_log = self._undo_logs.get(key)
        if undo_log is None:
            undo_log = self._undo_logs[key] = UndoLog(alias, region)
            self._by_extent.add(region.lo, region.hi, undo_log)
        entry.undo_log, entry.position = undo_log, undo_log.open(alias)

    def _hit(self, region: Region) -> list[UndoLog]:
        near = self._by_extent.near(region.lo, region.hi)
        return [
            undo_log for undo_log in near if undo_log.alias is not None and undo_log.region.overlaps(region)
        ]
