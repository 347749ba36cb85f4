"""Which of two proved repairs is offered first."""

from __future__ import annotations

import pytest

from unclobber.repair._search import _rank
from unclobber.repair.outcome import Proof, Repair


def _repair(*, lines=1, hides=False, drops=False, **proof):
    return Repair(("",), ("",), {}, lines, Proof("as written", 1, 1, **proof), hides=hides, drops=drops)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (_repair(hides=True), _repair(to_end=False)),
        (_repair(hides=True), _repair(drops=True)),
        (_repair(lines=3), _repair(hides=True)),
        (_repair(lines=1, extra_bytes=10**9), _repair(lines=2)),
        (_repair(cpu_seconds=30.0), _repair(extra_bytes=10**9)),
        (_repair(cpu_seconds=-2.0), _repair(cpu_seconds=2.0)),
    ],
    ids=["end", "drops", "hides", "lines", "memory", "time"],
)
def test_what_counts(better, worse):
    """How far it is proved, dropped gradients, hidden writes, then lines, then memory, then time."""
    assert _rank(better) < _rank(worse)


@pytest.mark.parametrize(
    "other",
    [_repair(seconds=20.0), _repair(cpu_seconds=0.4), _repair(extra_bytes=10**6)],
    ids=["waited", "time", "memory"],
)
def test_noise_does_not_count(other):
    """Equal cures keep the order of the table, also where the machine was busy with something else."""
    assert _rank(_repair()) == _rank(other)
