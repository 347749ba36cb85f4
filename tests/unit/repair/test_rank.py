"""Which of two proved repairs is offered first."""

from __future__ import annotations

import pytest

from unclobber.model import Site
from unclobber.repair._search import _rank, _words
from unclobber.repair.outcome import Proof, Repair


def _repair(*, lines=1, hides=False, drops=False, **proof):
    costs = (drops, False, hides, False, 0, lines)
    return Repair(("",), ("",), {}, Proof("as written", 1, 1, **proof), costs=costs)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (_repair(hides=True), _repair(to_end=False)),
        (_repair(hides=True), _repair(drops=True)),
        (_repair(lines=3), _repair(hides=True)),
        (_repair(lines=1, extra_bytes=10**9), _repair(lines=2)),
        (_repair(cpu_seconds=30.0), _repair(extra_bytes=10**9)),
        (_repair(cpu_seconds=-2.0), _repair(cpu_seconds=2.5)),
    ],
    ids=["end", "drops", "hides", "lines", "memory", "time"],
)
def test_what_counts(better, worse):
    """How far it is proved, dropped gradients, hidden writes, then lines, then memory, then time."""
    assert _rank(better) < _rank(worse)


@pytest.mark.parametrize(
    "other",
    [_repair(seconds=20.0), _repair(cpu_seconds=1.5), _repair(extra_bytes=10**6)],
    ids=["waited", "time", "memory"],
)
def test_noise_does_not_count(other):
    """Equal fixers keep the order of the table, also where the machine was busy with something else."""
    assert _rank(_repair()) == _rank(other)


def _site(statement):
    source = statement.partition(" = ")[2]
    return Site("a.py", 1, 5, 1, len(statement) + 1, "step", source, 1, 1, statement)


@pytest.mark.parametrize(
    "edited", ["y = a.clone() * b", "y = (a * b).clone()", "y = (a.detach() * b).clone()"]
)
def test_a_finding_is_the_same_after_a_copy_in_its_line(edited):
    """What comes back after an edit has not been cured by it."""
    assert _words(_site(edited)) == _words(_site("y = a * b"))


def test_another_line_is_another_finding():
    assert _words(_site("y = a.clone() * c")) != _words(_site("y = a * b"))
