"""The changes in a report, predicted on the recorded timeline and tried, and the curve of peak against
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...model.text import plural
from .._facts import Change, CurvePoint, MemoryReport
from .._shown import StepMemory
from .._timeline import BytesOverTime
from .._trace import Trace
from . import _edits, _formulas
from ._attempts import Attempts
from ._cache import caches
from ._checkpoints import SecondForward, groups
from ._copies import copies
from ._formulas import Formula
from ._held import held, unneeded
from ._option import LEAST, Option, change_of, front, saved_for_work
from ._pieces import pieces
from ._twice import computed_twice
from ._wide import widened

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
    candidates = _options(trace, report)
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


# --- all changes -------------------------------------------------------------------------------------
def _options(trace: Trace, report: MemoryReport) -> list[Option]:
    """Return all changes whose predicted saving exceeds `LEAST`, largest first."""
    again = SecondForward(trace)
    candidates = [
        *_of_formulas(trace),
        *_of_masks(trace),
        *copies(trace),
        *computed_twice(trace),
        *widened(trace),
        *groups(again),
        *pieces(again),
        *_of_in_place(report),
        *caches(trace),
    ]
    # Before its end it isn't known what backward reads.
    if trace.ended_early is None and trace.backward_began is not None:
        candidates += [*unneeded(trace), *held(trace)]
    for option in candidates:
        # Checkpoints and in-place changes bring a prediction of their own.
        drop = option.change.predicted or trace.bytes.fall(option.spans)
        option.change = replace(option.change, predicted=drop)
    least = LEAST * max(trace.bytes.step)
    worthwhile = [option for option in candidates if option.change.predicted > least]
    return sorted(worthwhile, key=lambda option: (-option.change.predicted, option.change.recomputed))


# --- what is computed otherwise ----------------------------------------------------------------------
def _of_formulas(trace: Trace) -> Iterable[Option]:
    """Yield a change for each written-out formula that torch computes in one piece on this device."""
    for formula in _formulas.formulas(trace):
        if formula.in_pieces:
            continue
        spans = tuple(
            trace.span(trace.storages[number], part.operations[-1].tick + 1)
            for part in formula.parts
            for number in part.inner & trace.kept_spans.keys()
        )
        count = len({operation.outer for operation in formula.parts[0].operations})
        title = f"{formula.name} is written out as {plural(count, 'call')}, and each keeps what it needs"
        change = change_of(formula.results, "formula", title, _spelled(formula), _edits.of_formula(formula))
        yield Option(change, spans, formulas=(formula,))


def _of_masks(trace: Trace) -> Iterable[Option]:
    """Yield a change for each dropout that keeps its mask as numbers; a byte mask spares three quarters."""
    for formula in _formulas.float_masks(trace):
        drawn = {number for part in formula.parts for number in part.drawn}
        held = (span for number in drawn for span in trace.kept_spans.get(number, ()))
        spans = tuple((number, since, until, size * 3 // 4) for number, since, until, size in held)
        title = "dropout on the CPU keeps its mask as numbers, on CUDA in one byte an element"
        yield Option(change_of(formula.results, "mask", title, _spelled(formula)), spans, formulas=(formula,))


def _of_in_place(report: MemoryReport) -> Iterable[Option]:
    """Yield a change for each in-place candidate that lowers the peak by itself."""
    for candidate in report.candidates:
        if candidate.peak_drop > 0:
            change = Change(
                sort="in-place",
                title=f"{candidate.operation} in place: nobody reads the old value",
                write=candidate.operation,
                place=candidate.place,
                modules=candidate.modules,
                times=candidate.times,
                predicted=candidate.peak_drop,
            )
            yield Option(change, (), in_place=candidate.keys)


def _spelled(formula: Formula) -> str:
    attends = formula.name == "scaled_dot_product_attention"
    names = ("q", "k", "v", "mask") if attends else ("x", "weight", "bias")
    return formula.call.format(*names)
