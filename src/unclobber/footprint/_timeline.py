"""Live bytes of every kind at every tick, from the lives of storages and saves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ._facts import LiveBytes

LASTING = ("parameter", "buffer", "input")

Span = tuple[int, int, int, int]  # storage, first tick, last tick, bytes


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order; those of one storage that meet or overlap are one, and count once."""
    merged: list[Span] = []
    for storage, since, until, size in sorted(set(spans)):
        known, begin, end, bytes_ = merged[-1] if merged else (-1, 0, 0, 0)
        # A change may also add the memory of a storage, which another one spares.
        if storage == known and since <= end + 1 and (size < 0) == (bytes_ < 0):
            merged[-1] = (storage, begin, max(end, until), size)
        else:
            merged.append((storage, since, until, size))
    return merged


def summed(spans: Iterable[Span], first: int, count: int) -> list[int]:
    """Return the spans' bytes, together, at each of ``count`` ticks from ``first`` on."""
    # Differences at the spans' ends, added up once, because there is a span for each call. One element more
    # than ticks, for spans that end at the last one.
    change = [0] * (count + 1)
    for _, since, until, size in spans:
        start, end = max(since - first, 0), min(until - first, count - 1)
        if start <= end:
            change[start] += size
            change[end + 1] -= size
    return list(accumulate(change))[:-1]


@dataclass(frozen=True)
class BytesOverTime:
    """Live bytes by tick, from ``first`` on."""

    first: int
    moments: list[LiveBytes]

    @cached_property
    def totals(self) -> list[int]:
        return [moment.total for moment in self.moments]

    @cached_property
    def step(self) -> list[int]:
        return [moment.step for moment in self.moments]  # without parameters, buffers and inputs

    def at(self, tick: int) -> LiveBytes:
        return self.moments[tick - self.first]

    def peak(self) -> int:
        return self.first + self.totals.index(max(self.totals))

    def highest(self, values: Sequence[int], spans: Iterable[Span], *, sign: int) -> int:
        """Return the largest of the values by tick with ``sign`` times the spans' bytes added."""
        more = summed(spans, self.first, len(values))
        return max(value + sign * size for value, size in zip(values, more, strict=True))

    def fall(self, spans: Iterable[Span]) -> int:
        """Return the bytes by which the step's peak falls without some memory."""
        return max(self.step) - self.highest(self.step, joined(spans), sign=-1)
