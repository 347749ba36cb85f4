"""The changes in a report, tried or only predicted, and the curve of peak against time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from .._facts import Change, CurvePoint, MemoryReport, Tried
from .._timeline import BytesOverTime, timeline
from .._trace import Trace
from ._attempts import Attempts, step_peak
from ._option import Option, fall
from ._options import options

MOST_TOLD = 12
MOST_TRIED = 12
"""Changes that are run; each takes three runs of the program."""
_STEPS = 5
"""Points of the curve at most, and checkpoints in the report."""


def predicted(trace: Trace, report: MemoryReport) -> MemoryReport:
    """Return the report with the changes and their predicted savings."""
    found = _worth_telling(options(trace, report))
    return replace(report, changes=tuple(one.change for one in found), curve=_curve(trace, found, None))


def tried(
    trace: Trace,
    report: MemoryReport,
    run: Callable[[], str | None],
    restore: Callable[[], None],
    step: int,
) -> MemoryReport:
    """Return the report with the changes that could be run, and their measured savings."""
    found = _worth_telling(options(trace, report))
    if not any(one.runs for one in found):
        return replace(report, changes=tuple(one.change for one in found))
    attempts = Attempts(run, restore, trace, step)
    known: dict[tuple[int, ...], Tried] = {}
    ran = 0
    for at, option in enumerate(found):
        if option.runs and ran < MOST_TRIED:
            ran += 1
            known[at,] = attempts.run([option])
            found[at] = replace(option, change=replace(option.change, tried=known[at,]))
        elif option.runs:
            late = f"{MOST_TRIED} others come first"
            found[at] = replace(option, change=replace(option.change, why_untried=late))
    order = sorted(range(len(found)), key=lambda at: -found[at].change.saved)
    found = [found[at] for at in order]
    known = {(order.index(at),): result for (at,), result in known.items()}
    curve = _curve(trace, found, attempts, known)
    return replace(report, changes=tuple(one.change for one in found), curve=curve)


def _worth_telling(found: Sequence[Option]) -> list[Option]:
    """Return the largest changes; of checkpoints only those that no other beats in both bytes and work."""
    chosen: list[Option] = []
    for option in found:
        change = option.change
        beaten = change.sort == "checkpoint" and any(
            other.change.sort == "checkpoint"
            and other.change.predicted >= change.predicted
            and other.change.recomputed <= change.recomputed
            for other in chosen
        )
        if not beaten:
            chosen.append(option)
    cheap = [one for one in chosen if one.change.sort != "checkpoint"]
    again = [one for one in chosen if one.change.sort == "checkpoint"]
    while len(again) > _STEPS:
        # The checkpoint whose neighbour saves nearly as much adds least to the report.
        gaps = [a.change.predicted - b.change.predicted for a, b in pairwise(again)]
        again.pop(gaps.index(min(gaps)) + 1)
    return sorted(cheap[:MOST_TOLD] + again, key=lambda one: -one.change.predicted)


def _curve(
    trace: Trace,
    found: Sequence[Option],
    attempts: Attempts | None,
    known: dict[tuple[int, ...], Tried] | None = None,
) -> tuple[CurvePoint, ...]:
    """Return up to five points, from changes that cost no time to those that cost some, each with a lower
    peak.
    """
    known = dict(known or {})
    line = timeline(trace)
    peak = step_peak(trace)
    points = []
    free = tuple(
        at
        for at, one in enumerate(found)
        if one.runs and one.change.sort != "checkpoint" and _good(one.change)
    )
    if attempts is not None and len(free) > 1:
        free = _compatible(free, found, attempts, known)
    for members in _steps(line, found, free):
        drop = fall(line, [span for at in members for span in found[at].spans])
        measured = None
        if attempts is not None:
            measured = known.get(members) or attempts.run([found[at] for at in members])
            if not measured.proved or measured.saved <= 0:
                continue
        points.append(CurvePoint(members, peak - drop, measured))
    return tuple(_falling(points))


def _compatible(
    free: tuple[int, ...],
    found: Sequence[Option],
    attempts: Attempts,
    known: dict[tuple[int, ...], Tried],
) -> tuple[int, ...]:
    """Return the changes of `free` without those that spoil the ones before them."""
    known[free] = attempts.run([found[at] for at in free])
    if known[free].proved:
        return free
    together = free[:1]
    for at in free[1:]:
        more = (*together, at)
        known[more] = attempts.run([found[one] for one in more])
        best = max((known[together].saved, *(known[one,].saved for one in more)))
        if known[more].proved and known[more].saved >= best:
            together = more
    return together


def _steps(line: BytesOverTime, found: Sequence[Option], free: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return up to five sets of changes, from those that cost no time to the lowest peak."""
    again = [at for at, one in enumerate(found) if one.change.sort == "checkpoint" and _good(one.change)]
    sets = {free} | {(*free, at) for at in again}
    # As many as can be made at once: those first that save most for their work, or most at all.
    for order in (lambda at: -_worth(found[at]), lambda at: -found[at].change.predicted):
        members = free
        for at in sorted(again, key=order):
            if not any(found[at].excludes(found[other]) for other in members):
                members = (*members, at)
                sets.add(members)
    sets.discard(())
    known = {
        members: (
            sum(found[at].change.recomputed for at in members),
            -fall(line, [span for at in members for span in found[at].spans]),
        )
        for members in sets
    }
    front: list[tuple[int, ...]] = []
    for members in sorted(sets, key=lambda members: (*known[members], len(members))):
        if not front or known[members][1] < known[front[-1]][1]:
            front.append(members)
    while len(front) > _STEPS:
        gaps = [known[a][1] - known[b][1] for a, b in pairwise(front)]
        # The first and the last one stay, because they are the ends of the curve.
        del front[min(range(1, len(gaps)), key=lambda at: gaps[at - 1])]
    return front


def _worth(option: Option) -> float:
    """Return the bytes for each part of forward that is computed twice."""
    return option.change.predicted / max(option.change.recomputed, 1e-3)


def _good(change: Change) -> bool:
    return change.tried is None or (change.tried.proved and change.tried.saved > 0)


def _falling(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the curve points whose peak is below every earlier one, keeping their order."""
    found: list[CurvePoint] = []
    for point in points:
        if not found or point.peak < found[-1].peak:
            found.append(point)
    return found
