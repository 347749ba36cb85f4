"""What was there before a write: undo records, and values rebuilt from them.

All live saves of one geometry of one storage share an ``UndoLog``, which is a chain of
``LogPosition``s linked forward in time, each with the record of the write that ended it. A save holds
the position at which it was made, so it keeps alive exactly the records of the writes that came
after it, and dropping it frees what nobody else needs: reference counting is the bookkeeping.

A value is rebuilt from the nearest later known one (the memory as it is now, or a full copy) by
putting the records back over it, newest first.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import torch

from ..torch_internals import compat
from . import _streams
from ._region import Region
from .content import each_once
from .selection import Selection

SLAB = 1 << 20
"""Small copies share slabs of this many bytes: alone they would shred the allocator's heap."""
_SMALL = 1 << 17
_ALIGN = 64
_CACHE_AFTER = 8
"""Rebuilding through more records than this keeps the result: backward asks newest first, so the
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


class _Slab(NamedTuple):
    """Memory for copies of one dtype."""

    memory: torch.Tensor
    used: int
    """Its elements that are taken."""


class _Slabs(threading.local):
    def __init__(self) -> None:
        self.of: dict[torch.dtype, _Slab] = {}


_slabs = _Slabs()


def keep(tensor: torch.Tensor) -> torch.Tensor:
    """A copy, any shape and dtype; expanded dimensions stay expanded, small CPU copies share slabs."""
    once = each_once(tensor)
    item, count = once.itemsize, once.numel()
    if count * item > _SMALL or tensor.device.type != "cpu":
        place = once.clone()
    else:
        slab = _slabs.of.get(once.dtype)
        room = -(-count * item // _ALIGN) * _ALIGN // item
        if slab is None or slab.used + room > slab.memory.numel():
            slab = _Slab(torch.empty(SLAB // item, dtype=once.dtype, device="cpu"), 0)
        _slabs.of[once.dtype] = _Slab(slab.memory, slab.used + room)
        if once.is_contiguous():
            place = slab.memory.as_strided(once.size(), once.stride(), slab.used)
        else:
            place = slab.memory.narrow(0, slab.used, count).view(once.size())
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
        self.account = account
        self.region = region
        self.dtype = dtype
        self.data = data
        self.selection = selection
        """Which elements of the region ``data`` holds; None: all of them."""
        self.full = full
        """Whether these are all values of an undo log, so that nothing later is needed to rebuild them."""
        self.nbytes = region.nbytes if selection is None else selection.nbytes + data.nbytes
        account.add(self.nbytes)

    def __del__(self) -> None:
        if hasattr(self, "nbytes"):  # not where the copy itself failed
            self.account.remove(self.nbytes)

    def used_on(self, stream: Any) -> None:
        """The allocator may not hand this memory on before what ``stream`` has to do now is done."""
        self.data.record_stream(stream)
        for part in () if self.selection is None else self.selection.index:
            if isinstance(part, torch.Tensor):
                part.record_stream(stream)

    def restore(self, view: torch.Tensor) -> None:
        """Put the values back into ``view``, which has the geometry of the written tensor."""
        if self.selection is None:
            each_once(view).copy_(each_once(self.data))
        else:
            self.selection.put(view, self.data)


class LogPosition:
    """A point in an undo log: the record of the write that ended it, and the next position."""

    __slots__ = ("next", "record")

    def __init__(self) -> None:
        self.record: OldValues | None = None
        self.next: LogPosition | None = None

    def is_kept(self) -> bool:
        """Whether the values of this point can be had without the memory: a full copy came later."""
        at: LogPosition | None = self
        while at is not None and at.record is not None:
            if at.record.full:
                return True
            at = at.next
        return False


class UndoLog:
    """All live saves of one geometry and dtype of one storage."""

    __slots__ = (
        "__weakref__", "_cache", "alias", "bits", "dtype", "now", "recorded", "recorded_bytes",
        "region", "streams", "whole_only",
    )  # fmt: skip

    def __init__(self, alias: torch.Tensor, region: Region) -> None:
        self.region = region
        self.dtype = alias.dtype
        self.bits = compat.conj_neg_bits(alias)
        self.alias: torch.Tensor | None = None
        """The memory itself while a save's value may still be in it; None once a full copy is kept."""
        self.now = LogPosition()
        self.recorded: set[Region] = set()
        """Regions recorded since the last save: the oldest value of a region is the one that counts."""
        self.recorded_bytes = 0
        self.whole_only = region.nbytes > region.hi - region.lo
        """Windows that share elements with each other (``unfold``) can't be put back piece by piece."""
        self._cache: tuple[LogPosition, torch.Tensor] | None = None
        self.streams: set[Any] = set()
        """Where its memory was written and copied, on a device with streams."""

    def open(self, alias: torch.Tensor) -> LogPosition:
        """A save was made: from now on the present value matters (again). Returns the present position."""
        self.alias = alias
        self.recorded = set()
        self.recorded_bytes = 0
        return self.now

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
        """A fresh tensor with the values that were there at ``position``.

        Always a copy: backward code may scribble on what it unpacks, and asks again later.
        """
        here = self._wait_for_writes(position) if self.streams else None
        records: list[OldValues] = []
        base: torch.Tensor | None = None
        at: LogPosition = position
        while at.record is not None:
            if self._cache is not None and at is self._cache[0]:
                base = self._cache[1]
                break
            if at.record.full:
                base = at.record.data
                break
            records.append(at.record)
            assert at.next is not None
            at = at.next
        if base is None:
            assert self.alias is not None  # the newest position of an open undo log
            base = compat.physical(self.alias)
        if here is not None and at.record is not None:
            base.record_stream(here)
        if not records:
            return compat.with_bits(self._copied(base), *self.bits)
        value = self._replay(base, records)
        if len(records) > _CACHE_AFTER or self._cache is not None:
            self._cache = (position, value)
            value = value.clone()
        return compat.with_bits(value, *self.bits)

    def _wait_for_writes(self, position: LogPosition) -> Any:
        """Let what is to come wait for the writes in other streams, and their copies wait to be freed.

        Backward runs an operation's derivative on the stream of that operation. The program need not have
        ordered it after a write whose result backward does not want.

        Returns:
            The present stream; None where all ran on it.
        """
        assert position.record is not None
        here = _streams.current(position.record.data)
        others = self.streams - {here}
        if not others:
            return None
        for stream in others:
            here.wait_stream(stream)
        at: LogPosition | None = position
        while at is not None and at.record is not None:
            at.record.used_on(here)
            at = at.next
        self.streams.add(here)  # for what is cached here
        return here

    def _copied(self, base: torch.Tensor) -> torch.Tensor:
        """A copy laid out as what was saved: kernels round differently for another layout."""
        if self.whole_only:
            return self._windows(base)
        strides = _narrowed(self.region)
        value = torch.empty_strided(self.region.sizes, strides, dtype=base.dtype, device=base.device)
        each_once(value).copy_(each_once(base))
        return value

    def _windows(self, base: torch.Tensor) -> torch.Tensor:
        """The same for windows that share elements: those have the same value in all of them."""
        region = self.region
        count = (region.hi - region.lo) // region.itemsize
        places = torch.arange(count, device=base.device).as_strided(region.sizes, region.strides)
        memory = torch.empty(count, dtype=base.dtype, device=base.device)
        memory[places.reshape(-1)] = base.reshape(-1)
        return memory.as_strided(region.sizes, region.strides)

    def _replay(self, base: torch.Tensor, records: list[OldValues]) -> torch.Tensor:
        """Lay ``records`` (oldest first) over ``base``, in a buffer that holds all their regions."""
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
        return self._copied(value) if buffer.nbytes > 2 * self.region.nbytes else value


def _narrowed(region: Region) -> tuple[int, ...]:
    """Strides that go through memory as the region's do, with gaps of one element where it has any.

    Kernels ask which dimensions are expanded, which lies inside which, and which follow without a gap; of
    dimensions of size one, too, whose strides nothing else depends on.
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
            inside = stride < there and sizes[stride] == 1
            new[stride] = max(1 if inside else end, last) + 1
        last = new[stride]
        if sizes[stride] > 1:
            end, there = last * sizes[stride], stride * sizes[stride]
    return tuple(new[stride] for stride in region.strides)
