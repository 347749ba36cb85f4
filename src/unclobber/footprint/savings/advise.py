"""The changes in a report, tried or only predicted, and the curve of peak against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .._facts import Change, CurvePoint, Tried
from .._shown import StepMemory
from .._timeline import BytesOverTime, timeline
from .._trace import Trace
from ._attempts import Attempts, step_peak
from ._option import Option, fall, front, saved_for_work
from ._options import options

MOST_REPORTED = 12
MOST_TRIED = 12
"""Changes that are run; each takes three runs of the program."""
_STEPS = 5
"""Points of the curve at most, and checkpoints in the report."""


def predicted(trace: Trace, report: StepMemory) -> StepMemory:
    """Return the report with the changes and their predicted savings."""
    chosen = _worth_reporting(options(trace, report))
    changes = tuple(option.change for option in chosen)
    return replace(report, changes=changes, curve=_curve(trace, chosen, None))


def tried(report: StepMemory, attempts: Attempts) -> StepMemory:
    """Return the report with the changes that could be run, and their measured savings."""
    trace = attempts.before
    chosen = _worth_reporting(options(trace, report))
    known: dict[tuple[int, ...], Tried] = {}
    ran = 0
    for at, option in enumerate(chosen):
        if option.runs and ran < MOST_TRIED:
            ran += 1
            known[at,] = attempts.run([option])
            chosen[at] = replace(option, change=replace(option.change, tried=known[at,]))
        elif option.runs:
            late = f"{MOST_TRIED} others come first"
            chosen[at] = replace(option, change=replace(option.change, why_untried=late))
    # A change that lowers nothing when it is run is none.
    useful = [at for at, option in enumerate(chosen) if not _in_vain(option.change.tried)]
    order = sorted(useful, key=lambda at: -chosen[at].change.saved)
    chosen = [chosen[at] for at in order]
    # Results are kept by position, and sorting moved the positions.
    known = {(order.index(at),): result for (at,), result in known.items() if at in order}
    curve = _curve(trace, chosen, attempts, known)
    return replace(report, changes=tuple(option.change for option in chosen), curve=curve)


def _in_vain(tried: Tried | None) -> bool:
    return tried is not None and tried.proved and tried.saved <= 0


def _worth_reporting(candidates: Sequence[Option]) -> list[Option]:
    """Return the largest changes; of checkpoints only those that no other beats in both bytes and work."""
    cheap = [option for option in candidates if option.change.sort != "checkpoint"]
    again = [option for option in candidates if option.change.sort == "checkpoint"]
    chosen = cheap[:MOST_REPORTED] + front(again, saved_for_work, _STEPS)
    return sorted(chosen, key=lambda option: -option.change.predicted)


def _curve(
    trace: Trace,
    chosen: Sequence[Option],
    attempts: Attempts | None,
    known: dict[tuple[int, ...], Tried] | None = None,
) -> tuple[CurvePoint, ...]:
    """Return up to five points, from changes that cost no time to those that cost some, each with a lower
    peak."""
    known = dict(known or {})
    line = timeline(trace)
    peak = step_peak(trace)
    points = []
    free = tuple(
        at
        for at, option in enumerate(chosen)
        if option.runs and option.change.sort != "checkpoint" and _good(option.change)
    )
    # A single change has been tried by itself already.
    if attempts is not None and len(free) > 1:
        free = _compatible(free, chosen, attempts, known)
    for members in _steps(line, chosen, free):
        drop = fall(line, [span for at in members for span in chosen[at].spans])
        measured = None
        if attempts is not None:
            measured = known.get(members) or attempts.run([chosen[at] for at in members])
            # A set that lowers nothing, or computes something else, is no point of the curve.
            if not measured.proved or measured.saved <= 0:
                continue
        points.append(CurvePoint(members, peak - drop, measured))
    return tuple(_falling(points))


def _compatible(
    free: tuple[int, ...], chosen: Sequence[Option], attempts: Attempts, known: dict[tuple[int, ...], Tried]
) -> tuple[int, ...]:
    """Return the changes of `free` without those that spoil the ones before them."""
    known[free] = attempts.run([chosen[at] for at in free])
    if known[free].proved:
        return free
    together = free[:1]
    for at in free[1:]:
        more = (*together, at)
        known[more] = attempts.run([chosen[index] for index in more])
        best = max((known[together].saved, *(known[index,].saved for index in more)))
        if known[more].proved and known[more].saved >= best:
            together = more
    return together


def _steps(line: BytesOverTime, chosen: Sequence[Option], free: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return up to five sets of changes, from those that cost no time to the lowest peak."""
    changes = [option.change for option in chosen]
    again = [at for at, change in enumerate(changes) if change.sort == "checkpoint" and _good(change)]
    sets = {free} | {(*free, at) for at in again}
    # As many as can be made at once: those first that save most for their work, or most at all.
    for order in (lambda at: -_worth(chosen[at]), lambda at: -chosen[at].change.predicted):
        members = free
        for at in sorted(again, key=order):
            if not any(chosen[at].excludes(chosen[other]) for other in members):
                members = (*members, at)
                sets.add(members)
    # The empty set is the program as it is.
    sets.discard(())

    def worth(members: tuple[int, ...]) -> tuple[float, float]:
        """Return the bytes that are saved together, and the work; of equal sets the smaller one is first."""
        spans = [span for at in members for span in chosen[at].spans]
        return fall(line, spans), sum(changes[at].recomputed for at in members)

    return front(sorted(sets, key=len), worth, _STEPS)[::-1]


def _worth(option: Option) -> float:
    """Return the bytes for each part of forward that is computed twice."""
    return option.change.predicted / max(option.change.recomputed, 1e-3)


def _good(change: Change) -> bool:
    return change.tried is None or (change.tried.proved and change.tried.saved > 0)


def _falling(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the curve points whose peak is below every earlier one, keeping their order."""
    falling: list[CurvePoint] = []
    for point in points:
        if not falling or point.peak < falling[-1].peak:
            falling.append(point)
    return falling
