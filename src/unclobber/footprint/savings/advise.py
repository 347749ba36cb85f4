"""The changes in a report, tried or only predicted, and the curve of peak against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .._facts import CurvePoint, StepMemory
from .._timeline import BytesOverTime
from .._trace import Trace
from ._attempts import Attempts
from ._option import Option, front, saved_for_work
from ._options import options

MOST_REPORTED = 12
MOST_TRIED = 12  # changes that are run; each takes three runs of the program
_STEPS = 5  # points of the curve at most, and checkpoints in the report


def advised(trace: Trace, report: StepMemory, attempts: Attempts | None = None) -> StepMemory:
    """Return the report with the changes: predicted, and measured by `attempts` if they could be run."""
    chosen = _worth_reporting(trace, report)
    if attempts is not None:
        runnable = [option for option in chosen if option.runs]
        for option in runnable[:MOST_TRIED]:
            option.change = replace(option.change, tried=attempts.run((option,)))
        for option in runnable[MOST_TRIED:]:
            option.change = replace(option.change, why_untried=f"{MOST_TRIED} others come first")
        # A change that lowers nothing when it is run is none.
        chosen = [o for o in chosen if (run := o.change.tried) is None or not run.proved or run.saved > 0]
        chosen.sort(key=lambda option: -option.change.saved)
    changes = tuple(option.change for option in chosen)
    return replace(report, changes=changes, curve=_curve(trace, chosen, attempts))


def _worth_reporting(trace: Trace, report: StepMemory) -> list[Option]:
    """Return the largest changes; of checkpoints only those that no other beats in both bytes and work."""
    candidates = options(trace, report)
    cheap = [option for option in candidates if not _computes_again(option)]
    again = [option for option in candidates if _computes_again(option)]
    chosen = cheap[:MOST_REPORTED] + front(again, saved_for_work, _STEPS)
    return sorted(chosen, key=lambda option: -option.change.predicted)


def _curve(trace: Trace, chosen: Sequence[Option], attempts: Attempts | None) -> tuple[CurvePoint, ...]:
    """Return up to five points, each with a lower peak: changes that cost no time come first."""
    points: list[CurvePoint] = []
    free = tuple(option for option in chosen if option.runs and not _computes_again(option) and _good(option))
    # If changes spoil each other, the curve begins with the one that saves most, which was tried alone.
    if attempts is not None and len(free) > 1 and not attempts.run(free).proved:
        free = free[:1]
    again = [option for option in chosen if _computes_again(option) and _good(option)]
    for members in _steps(trace.bytes, free, again):
        drop = trace.bytes.fall([span for option in members for span in option.spans])
        measured = None if attempts is None else attempts.run(members)
        # A set that lowers nothing, or computes something else, is no point of the curve.
        if measured is not None and (not measured.proved or measured.saved <= 0):
            continue
        point = CurvePoint(tuple(map(chosen.index, members)), max(trace.bytes.step) - drop, measured)
        if not points or point.peak < points[-1].peak:
            points.append(point)
    return tuple(points)


def _steps(
    line: BytesOverTime, free: tuple[Option, ...], again: Sequence[Option]
) -> list[tuple[Option, ...]]:
    """Return up to five sets of changes, from those that cost no time to the lowest peak."""
    sets = dict.fromkeys([free, *((*free, option) for option in again)])
    # As many as can be made at once: those first that save most for their work, or most at all.
    for order in (_worth, lambda option: option.change.predicted):
        members = free
        for option in sorted(again, key=order, reverse=True):
            if not any(option.excludes(other) for other in members):
                members = (*members, option)
                sets.setdefault(members)
    # The empty set is the program as it is.
    sets.pop((), None)

    def worth(members: tuple[Option, ...]) -> tuple[float, float]:  # of equal sets the smaller one is first
        spans = [span for option in members for span in option.spans]
        return line.fall(spans), sum(option.change.recomputed for option in members)

    return front(sorted(sets, key=len), worth, _STEPS)[::-1]


def _worth(option: Option) -> float:
    return option.change.predicted / max(option.change.recomputed, 1e-3)


def _computes_again(option: Option) -> bool:
    return option.change.sort == "checkpoint"


def _good(option: Option) -> bool:
    tried = option.change.tried
    return tried is None or (tried.proved and tried.saved > 0)
