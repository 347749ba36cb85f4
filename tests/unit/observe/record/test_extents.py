"""What covers a byte of a range is found; what has died is not."""

from __future__ import annotations

import gc
import random

from unclobber.observe.record._extents import Extents


class Span:
    """Any object that can die."""

    def __init__(self, lo: int, hi: int) -> None:
        self.lo, self.hi = lo, hi


def test_all_that_meet_are_near():
    chance = random.Random(1)
    extents: Extents[Span] = Extents()
    spans = []
    for _ in range(600):
        lo = chance.randrange(-1000, 10_000)
        spans.append(Span(lo, lo + chance.choice([1, 4, 64, 3000])))
        extents.add(spans[-1].lo, spans[-1].hi, spans[-1])
    for _ in range(200):
        lo = chance.randrange(10_000)
        meeting = {id(span) for span in spans if span.lo < lo + 8 and lo < span.hi}
        assert meeting <= {id(span) for span in extents.near(lo, lo + 8)}


def test_far_ones_are_not_looked_at():
    extents: Extents[Span] = Extents()
    spans = [Span(at, at + 4) for at in range(0, 4000, 4)]
    for span in spans:
        extents.add(span.lo, span.hi, span)
    assert len(extents.near(2000, 2004)) < 5


def test_nothing_is_kept_alive():
    extents: Extents[Span] = Extents()
    for at in range(2000):
        extents.add(at, at + 1, Span(at, at + 1))
    gc.collect()
    assert extents.near(0, 2000) == []
    assert not extents
