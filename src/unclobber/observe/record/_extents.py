"""Index of objects by the byte range that each covers, queried by range."""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T")

_FIRST_PRUNE = 256
_START = itemgetter(0)


class Extents(Generic[T]):
    """Weak references sorted by start, in one list for each power of two of the extent.

    A query visits only the neighbours that can reach its range: it costs the same with 1 saved row or 1,000.
    """

    __slots__ = ("_count", "_limit", "_lists")

    def __init__(self) -> None:
        self._lists: dict[int, list[tuple[int, weakref.ref[T]]]] = {}
        self._count = 0
        self._limit = _FIRST_PRUNE

    def __bool__(self) -> bool:
        return self._count > 0  # dead entries count until they are pruned

    def add(self, lo: int, hi: int, thing: T) -> None:  # half-open: from `lo` to just before `hi`
        self._count += 1
        if self._count > self._limit:
            self._prune()
        places = self._lists.setdefault((hi - lo).bit_length(), [])
        insort(places, (lo, weakref.ref(thing)), key=_START)

    def near(self, lo: int, hi: int) -> list[T]:
        """Return all live objects that cover a byte of ``lo`` to before ``hi``, and perhaps nearby ones."""
        near: list[T] = []
        for bits, places in self._lists.items():
            # No extent in this list is longer than 2**bits bytes, so earlier starts can't reach `lo`.
            start = bisect_left(places, lo - (1 << bits), key=_START)
            end = bisect_left(places, hi, key=_START)
            here = [(place, place[1]()) for place in places[start:end]]
            alive = [thing for _, thing in here if thing is not None]
            if len(alive) < len(here):
                places[start:end] = [place for place, thing in here if thing is not None]
                self._count -= len(here) - len(alive)
            near += alive
        return near

    def _prune(self) -> None:
        for places in self._lists.values():
            places[:] = [place for place in places if place[1]() is not None]
        self._count = sum(map(len, self._lists.values()))
        self._limit = 2 * self._count + _FIRST_PRUNE  # doubling keeps the mean cost of an entry constant
