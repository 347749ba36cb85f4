"""The changes that could lower the peak, each with its saving predicted on the recorded timeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from ...model.text import plural
from .. import _places
from .._facts import Change, MemoryReport
from .._timeline import BytesOverTime, kept_spans, timeline
from .._trace import ModuleCall, Trace, modules_of
from . import _checkpoints, _edits, _formulas
from ._cache import caches
from ._copies import copies
from ._formulas import Formula
from ._held import held
from ._option import Option, Span, died, fall, step_bytes
from ._pieces import Pieces, pieces
from ._twice import computed_twice
from ._unneeded import unneeded
from ._wide import widened

_LEAST = 0.01
"""Share of the step's peak; changes that save less are not reported."""
_BEST_PIECES = 3
"""Single pieces of a row that are reported, of all between any two cuts."""


def options(trace: Trace, report: MemoryReport) -> list[Option]:
    """Return all changes whose predicted saving exceeds `_LEAST`, largest first."""
    line = timeline(trace)
    step = max(step_bytes(line), default=0)
    candidates = [
        *_of_formulas(trace, _formulas.formulas(trace)),
        *_of_masks(trace),
        *copies(trace),
        *computed_twice(trace),
        *widened(trace),
        *_of_checkpoints(trace),
        *_of_pieces(trace, line),
        *_of_in_place(report),
        *caches(trace),
    ]
    if trace.complete:
        # Before its end it isn't known what backward reads.
        candidates += [*unneeded(trace), *held(trace, line)]
    worthwhile = []
    for option in candidates:
        # Pieces and in-place changes bring a prediction of their own.
        drop = option.change.predicted or fall(line, option.spans)
        if drop > _LEAST * step:
            worthwhile.append(replace(option, change=replace(option.change, predicted=drop)))
    return sorted(worthwhile, key=lambda option: (-option.change.predicted, option.change.recomputed))


# --- what is computed otherwise ----------------------------------------------------------------------
def _of_formulas(trace: Trace, formulas: Iterable[Formula]) -> Iterable[Option]:
    """Yield a change for each written-out formula that torch computes in one piece on this device."""
    for formula in formulas:
        if formula.in_pieces:
            continue
        after = {
            number: part.operations[-1].tick
            for part in formula.parts
            for operation in part.operations
            for number in operation.makes
        }
        spans = tuple(
            (number, after[number] + 1, died(trace.storages[number], trace), trace.storages[number].bytes)
            for number in sorted(formula.freed(trace))
        )
        count = len({operation.outer for operation in formula.parts[0].operations})
        change = Change(
            sort="formula",
            title=f"{formula.name} is written out as {plural(count, 'call')}, and each keeps what it needs",
            write=_spelled(formula),
            place=_places.place(formula.stack),
            modules=_modules(formula),
            times=len(formula.parts),
            edits=_edits.of_formula(formula),
        )
        yield Option(change, spans, formulas=(formula,))


def _of_masks(trace: Trace) -> Iterable[Option]:
    """Yield a change for each dropout that keeps its mask as numbers; a byte mask spares three quarters."""
    for formula in _formulas.float_masks(trace):
        numbers = {
            number
            for part in formula.parts
            for operation in part.operations
            if operation.name == "bernoulli_"
            for number in operation.writes
        }
        held = kept_spans(trace)
        spans = tuple(
            (number, since, until, trace.storages[number].bytes * 3 // 4)
            for number in sorted(numbers)
            for since, until in held.get(number, ())
        )
        change = Change(
            sort="mask",
            title="dropout on the CPU keeps its mask as numbers, on CUDA in one byte an element",
            write=_spelled(formula),
            place=_places.place(formula.stack),
            modules=_modules(formula),
            times=len(formula.parts),
        )
        yield Option(change, spans, formulas=(formula,))


def _of_checkpoints(trace: Trace) -> Iterable[Option]:
    """Yield a change for each group of modules that could be checkpointed."""
    recomputed = _checkpoints.SecondForward(trace)
    for group in _checkpoints.groups(trace):
        spans, again = recomputed.of(group.calls)
        if spans:
            change = Change(
                sort="checkpoint",
                title=f"checkpoint {group.title}: compute it again in backward",
                write="torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False) for module(x)",
                place=_places.place(group.calls[0].stack),
                modules=tuple(call.label for call in group.calls),
                times=len(group.calls),
                recomputed=again,
                edits=_edits.of_checkpoint(trace, group.calls) if group.every == 1 else (),
            )
            yield Option(change, tuple(spans), rows=tuple((module,) for module in group.modules))


def _of_pieces(trace: Trace, line: BytesOverTime) -> Iterable[Option]:
    """Yield even cuts of each row of modules, and the single pieces that lower the peak most for their
    work."""
    recomputed = _checkpoints.SecondForward(trace)
    totals = step_bytes(line)
    single: dict[int, list[tuple[int, float, Option]]] = {}
    for cut in pieces(trace):
        spans, again = recomputed.of(cut.whole)
        drop = fall(line, spans, totals) if spans else 0
        if drop <= _LEAST * max(totals):
            continue
        option = _piece(trace, cut, tuple(spans), again, drop)
        if cut.even is not None:
            yield option
        else:
            single.setdefault(cut.row[0].number, []).append((drop, again, option))
    for members in single.values():
        yield from _front(members)


def _front(members: list[tuple[int, float, Option]]) -> list[Option]:
    """Return the options that no other beats in both bytes and work; of many, those that differ most."""
    front: list[tuple[int, float, Option]] = []
    for member in sorted(members, key=lambda member: (-member[0], member[1])):
        if not front or member[1] < front[-1][1]:
            front.append(member)
    # Of two that save nearly the same, the one with less work is the better report; the largest always stays.
    while len(front) > _BEST_PIECES:
        gaps = [a[0] - b[0] for a, b in pairwise(front)]
        del front[gaps.index(min(gaps)) + 1]
    return [option for _, _, option in front]


def _piece(trace: Trace, cut: Pieces, spans: tuple[Span, ...], again: float, drop: int) -> Option:
    """Return the change of checkpointing parts of one row of modules."""
    calls: list[ModuleCall] = [call for piece in cut.calls for call in piece]
    change = Change(
        sort="checkpoint",
        title=f"checkpoint {cut.title}: compute it again in backward",
        write=cut.write,
        place=_places.place(cut.row[0].stack),
        modules=tuple(call.label for call in calls),
        times=len(cut.calls),
        predicted=drop,
        recomputed=again,
        edits=_edits.of_pieces(trace, cut),
    )
    return Option(change, spans, rows=cut.modules)


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
    names = (
        ("x", "y", "z", "mask") if formula.name != "scaled_dot_product_attention" else ("q", "k", "v", "mask")
    )
    if "norm" in formula.name:
        names = ("x", "weight", "bias", "")
    return formula.call.format(*names)


def _modules(formula: Formula) -> tuple[str, ...]:
    return modules_of(part.operations[-1] for part in formula.parts)
