"""The changes that could lower the peak, each with its saving predicted on the recorded timeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...model.text import plural
from .._facts import Change, StepMemory
from .._trace import Trace
from . import _edits, _formulas
from ._cache import caches
from ._checkpoints import SecondForward, groups
from ._copies import copies
from ._formulas import Formula
from ._held import held
from ._option import LEAST, Option, change_of
from ._pieces import pieces
from ._twice import computed_twice
from ._unneeded import unneeded
from ._wide import widened


def options(trace: Trace, report: StepMemory) -> list[Option]:
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
    if trace.complete:
        # Before its end it isn't known what backward reads.
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
        after = {
            number: part.operations[-1].tick
            for part in formula.parts
            for number in part.inner & trace.saves_of.keys()
        }
        spans = tuple(trace.span(trace.storages[number], after[number] + 1) for number in sorted(after))
        count = len({operation.outer for operation in formula.parts[0].operations})
        title = f"{formula.name} is written out as {plural(count, 'call')}, and each keeps what it needs"
        change = change_of(formula.results, "formula", title, _spelled(formula), _edits.of_formula(formula))
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
        held = (span for number in sorted(numbers) for span in trace.kept_spans.get(number, ()))
        spans = tuple((number, since, until, size * 3 // 4) for number, since, until, size in held)
        title = "dropout on the CPU keeps its mask as numbers, on CUDA in one byte an element"
        yield Option(change_of(formula.results, "mask", title, _spelled(formula)), spans, formulas=(formula,))


def _of_in_place(report: StepMemory) -> Iterable[Option]:
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
