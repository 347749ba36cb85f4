"""Undo records of values that writes destroyed, and saved values rebuilt from them.

All live saves of one geometry of one storage share an ``UndoLog``, which is a chain of
``LogPosition``s linked forward in time, each with the record of the write that ended it. A save holds
the position at which it was made, so it keeps alive exactly the records of the writes that came after
it, and dropping it frees those that came before every other save: reference counting is the bookkeeping.

A value is rebuilt from the nearest later known value (the present memory, or a full copy) by
putting the records back over it, newest first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...torch_internals import compat
from ._region import Region
from .content import each_once
from .selection import Selection

SLAB = 1 << 20  # small copies share slabs of this many bytes: alone they would shred the allocator's heap
_SMALL = 1 << 17
_ALIGN = 64
_CACHE_AFTER = 8
"""Rebuilding through more records than this keeps the result: backward unpacks newest first, so the
next older save needs only a few records more."""


class Account:
    """Bytes of overwritten values that are kept now, and the most there ever were."""

    __slots__ = ("_lock", "kept", "peak")

    def __init__(self) -> None:
        self.kept = 0
        self.peak = 0
        self._lock = threading.RLock()  # a finalizer may run inside the critical section

    def add(self, nbytes: int) -> None:
        with self._lock:
            self.kept += nbytes
            self.peak = max(self.peak, self.kept)

    def remove(self, nbytes: int) -> None:
        with self._lock:
            self.kept -= nbytes


class _Slabs(threading.local):  # blocks that small copies share, and how many of their elements are taken
    def __init__(self) -> None:
        self.of: dict[torch.dtype, tuple[torch.Tensor, int]] = {}


_slabs = _Slabs()


def keep(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor. Expanded dimensions stay expanded; small CPU copies share slabs."""
    once = each_once(tensor)
    item, count = once.itemsize, once.numel()
    if count * item > _SMALL or tensor.device.type != "cpu":
        place = once.clone()
    else:
        slab, used = _slabs.of.get(once.dtype, (None, 0))
        room = -(-count * item // _ALIGN) * _ALIGN // item
        if slab is None or used + room > slab.numel():
            slab, used = torch.empty(SLAB // item, dtype=once.dtype, device="cpu"), 0
        _slabs.of[once.dtype] = slab, used + room
        # One torch call instead of two in the usual case, because a copy is made at every write to a save.
        if once.is_contiguous():
            place = slab.as_strided(once.size(), once.stride(), used)
        else:
            place = slab.narrow(0, used, count).view(once.size())
        place.copy_(once)
    return place if once is tensor else place.expand(tensor.size())


class OldValues:
    """The values of one overwritten region just before a write; shared by the undo logs it overlaps."""

    __slots__ = ("account", "data", "dtype", "full", "nbytes", "region", "selection")

    def __init__(
        self,
        account: Account,
        region: Region,
        dtype: torch.dtype,
        data: torch.Tensor,
        selection: Selection | None = None,
        full: bool = False,
    ) -> None:
        """Hold ``data``, a copy of values of ``region``, and add its bytes to ``account``."""
        self.account = account
        self.region = region
        self.dtype = dtype
        self.data = data
        self.selection = selection  # the elements of the region that ``data`` holds; None: all of them
        self.full = full
        """Whether these are all values of an undo log, so that rebuilding needs no later record."""
        self.nbytes = region.nbytes if selection is None else selection.nbytes + data.nbytes
        account.add(self.nbytes)

    def __del__(self) -> None:
        if hasattr(self, "nbytes"):  # missing if `__init__` raised before it accounted for the bytes
            self.account.remove(self.nbytes)

    def used_on(self, stream: Any) -> None:
        """Keep the allocator from reusing this memory before the work that is now in ``stream`` is done."""
        self.data.record_stream(stream)
        for part in () if self.selection is None else self.selection.index:
            if isinstance(part, torch.Tensor):
                part.record_stream(stream)

    def restore(self, view: torch.Tensor) -> None:
        if self.selection is None:
            each_once(view).copy_(each_once(self.data))
        else:
            self.selection.put(view, self.data)


@dataclass(slots=True, eq=False)
class LogPosition:
    """A point in an undo log: the record of the write that ended it, and the next position."""

    record: OldValues | None = None
    next: LogPosition | None = None

    def records(self) -> Iterator[OldValues]:  # oldest first
        at: LogPosition | None = self
        while at is not None and at.record is not None:
            yield at.record
            at = at.next

    def is_kept(self) -> bool:  # from a full copy, without the memory
        return any(record.full for record in self.records())


class UndoLog:
    """Undo records that all live saves of one geometry and dtype of one storage share."""

    __slots__ = (
        "__weakref__", "_cache", "alias", "bits", "dtype", "now", "recorded", "recorded_bytes",
        "region", "streams", "whole_only",
    )  # fmt: skip

    def __init__(self, alias: torch.Tensor, region: Region) -> None:
        """Make a log for the geometry and dtype of ``alias``, whose region is ``region``."""
        self.region = region
        self.dtype = alias.dtype
        self.bits = compat.tensors.conj_neg_bits(alias)
        self.alias: torch.Tensor | None = None
        """A view of the memory while a save's value may still be in it; None once a full copy is kept."""
        self.now = LogPosition()
        self.recorded: set[Region] = set()
        """Regions recorded since the last save. Their later values are not needed, only the oldest counts."""
        self.recorded_bytes = 0
        self.whole_only = region.nbytes > region.hi - region.lo
        """Whether indices share elements (``unfold``), so that values can't be put back piece by piece."""
        self._cache: tuple[OldValues, torch.Tensor] | None = None
        """The first record of a rebuilt value, and that value."""
        self.streams: set[Any] = set()
        """Streams in which the memory was written and copied; empty on a device without streams."""

    def open(self, alias: torch.Tensor) -> LogPosition:
        self.alias = alias
        # A region that was recorded for an older save has a newer value, which the new save needs.
        self.recorded = set()
        self.recorded_bytes = 0
        return self.now

    def knows(self, region: Region) -> bool:
        # The first write took what the save needs: test_the_oldest_value_of_a_region_counts,
        # test_a_save_whose_whole_value_was_recorded_needs_no_more.
        return region in self.recorded or self.region in self.recorded

    def append(self, record: OldValues) -> None:
        """End the present position with the record of the write that is about to happen."""
        self.now.record = record
        self.now.next = self.now = LogPosition()
        if record.full:
            self.alias = None
        else:
            if record.selection is None:
                self.recorded.add(record.region)
            self.recorded_bytes += record.nbytes

    def value_at(self, position: LogPosition) -> torch.Tensor:
        """Return a new tensor with the values that the memory had at ``position``.

        Always a copy, because backward code may write to what it unpacks and unpack again later.
        """
        here = self._wait_for_writes(position) if self.streams else None
        records: list[OldValues] = []
        for record in position.records():
            if self._cache is not None and record is self._cache[0]:
                base = self._cache[1]
                if here is not None:
                    base.record_stream(here)
                break
            if record.full:
                base = record.data
                break
            records.append(record)
        else:
            assert self.alias is not None  # the newest position of an open undo log
            base = compat.tensors.physical(self.alias)
        if not records:
            return compat.tensors.with_bits(self._copied(base), *self.bits)
        value = self._replay(base, records)
        if len(records) > _CACHE_AFTER or self._cache is not None:
            self._cache = (records[0], value)
            value = value.clone()  # backward may write to what it gets, and the cache must stay as it is
        return compat.tensors.with_bits(value, *self.bits)

    def _wait_for_writes(self, position: LogPosition) -> Any:
        """Make the current stream wait for the writes in other streams, and keep their copies until then.

        Backward runs an operation's derivative on the stream of that operation. The program need not have
        ordered it after a write whose result backward does not want.

        Returns:
            The current stream; None if all writes ran on it.
        """
        assert position.record is not None
        here = compat.tensors.current_stream(position.record.data)
        others = self.streams - {here}
        if not others:
            return None
        for stream in others:
            here.wait_stream(stream)
        for record in position.records():
            record.used_on(here)
        self.streams.add(here)  # for what is cached here
        return here

    def _copied(self, base: torch.Tensor) -> torch.Tensor:
        """Return a copy in the layout of the saved tensor, because kernels round differently in another one
        (``test_gradients_through_a_view_are_equal_to_the_last_bit``)."""
        if self.whole_only:
            return self._windows(base)
        strides = _narrowed(self.region)
        value = torch.empty_strided(self.region.sizes, strides, dtype=base.dtype, device=base.device)
        each_once(value).copy_(each_once(base))
        return value

    def _windows(self, base: torch.Tensor) -> torch.Tensor:
        """Copy ``base`` into a layout in which several indices share one memory element (``unfold``)."""
        region = self.region
        count = (region.hi - region.lo) // region.itemsize
        places = torch.arange(count, device=base.device).as_strided(region.sizes, region.strides)
        memory = torch.empty(count, dtype=base.dtype, device=base.device)
        memory[places.reshape(-1)] = base.reshape(-1)
        return memory.as_strided(region.sizes, region.strides)

    def _replay(self, base: torch.Tensor, records: list[OldValues]) -> torch.Tensor:
        """Put ``records`` (oldest first) back over ``base``, in a buffer that holds all their regions."""
        # A record may reach beyond the save. Multiples of 16 bytes let each dtype view the same buffer.
        regions = [self.region, *(record.region for record in records)]
        lo = min(region.lo for region in regions) & -16
        hi = max(region.hi for region in regions)
        buffer = torch.empty((hi - lo + 15) & -16, dtype=torch.uint8, device=base.device)

        def view(region: Region, dtype: torch.dtype) -> torch.Tensor:
            start = (region.lo - lo) // region.itemsize
            return buffer.view(dtype).as_strided(region.sizes, region.strides, start)

        each_once(view(self.region, self.dtype)).copy_(each_once(base))
        for record in reversed(records):
            record.restore(view(record.region, record.dtype))
        value = view(self.region, self.dtype)
        # A view keeps the whole buffer alive: copy a small save out of a large one.
        return self._copied(value) if buffer.nbytes > 2 * self.region.nbytes else value


def _narrowed(region: Region) -> tuple[int, ...]:
    """Return strides that traverse memory in the region's order, with gaps shortened to one element.

    Kernels depend on which dimensions are expanded, which is inside which, and which follow without a gap.
    Dimensions of size one count, too: ``test_kernels_of_one_pixel_come_back_bit_equal``.
    """
    if region.dense:
        return region.strides
    sizes: dict[int, int] = {}
    for stride, size in zip(region.strides, region.sizes, strict=True):
        sizes[stride] = max(size, sizes.get(stride, 1))
    new = {0: 0}
    last = 0  # the largest so far
    end = there = 1  # where the next dimension begins if there is no gap: here, and in the region
    for stride in sorted(sizes.keys() - {0}):
        if stride == there and end > last:
            new[stride] = end
        else:
            new[stride] = max(1 if stride < there and sizes[stride] == 1 else end, last) + 1
        last = new[stride]
        if sizes[stride] > 1:
            end, there = last * sizes[stride], stride * sizes[stride]
    return tuple(new[stride] for stride in region.strides)
