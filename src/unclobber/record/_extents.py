"""Things that cover a range of bytes, found by the ranges that meet them."""

from __future__ import annotations

import itertools
import weakref
from bisect import bisect_left, insort
from typing import Generic, TypeVar

T = TypeVar("T")

_FIRST_PRUNE = 256


class Extents(Generic[T]):
    """Sorted by start, in one list for each power of two of the extent: who asks looks only at the
    neighbours that can reach them, so it costs the same with 1 saved row or 1,000.

    Nothing in it is kept alive.
    """

    __slots__ = ("_count", "_limit", "_lists", "_numbers")

    def __init__(self) -> None:
        self._lists: dict[int, list[tuple[int, int, weakref.ref[T]]]] = {}
        self._numbers = itertools.count()
        self._count = 0
        self._limit = _FIRST_PRUNE

    def __bool__(self) -> bool:
        """Whether it may hold something."""
        return self._count > 0

    def add(self, lo: int, hi: int, thing: T) -> None:
        """Enter what covers the bytes from ``lo`` to just before ``hi``."""
        self._count += 1
        if self._count > self._limit:
            self._prune()
        places = self._lists.setdefault((hi - lo).bit_length(), [])
        insort(places, (lo, next(self._numbers), weakref.ref(thing)))

    def near(self, lo: int, hi: int) -> list[T]:
        """All that cover a byte of the given range, and perhaps some just before it."""
        found: list[T] = []
        for bits, places in self._lists.items():
            start = at = bisect_left(places, (lo - (1 << bits),))
            dead = False
            while at < len(places) and places[at][0] < hi:
                thing = places[at][2]()
                if thing is None:
                    dead = True
                else:
                    found.append(thing)
                at += 1
            if dead:
                alive = [place for place in places[start:at] if place[2]() is not None]
                self._count -= at - start - len(alive)
                places[start:at] = alive
        return found

    def _prune(self) -> None:
        for places in self._lists.values():
            places[:] = [place for place in places if place[2]() is not None]
        self._count = sum(map(len, self._lists.values()))
        self._limit = 2 * self._count + _FIRST_PRUNE
