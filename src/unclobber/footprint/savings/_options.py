"""The changes that could lower the peak, each with what the recorded timeline predicts of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...model.text import plural
from .. import _places
from .._facts import Change, MemoryReport
from .._inplace import highest
from .._timeline import BytesOverTime, end_of, kept_spans, timeline
from .._trace import Storage, Trace
from . import _checkpoints, _edits, _formulas
from ._checkpoints import Named, Span
from ._formulas import Formula

_LEAST = 0.01
"""Of the step's peak: what would save less is not told."""


@dataclass(frozen=True)
class Option:
    """A change with what it takes to run it."""

    change: Change
    spans: tuple[Span, ...]
    """Bytes that would not be alive."""
    formulas: tuple[Formula, ...] = ()
    modules: tuple[Named, ...] = ()
    in_place: tuple[tuple[object, ...], ...] = ()

    @property
    def runs(self) -> bool:
        return bool(self.formulas or self.modules or self.in_place)

    def excludes(self, other: Option) -> bool:
        """Whether the two can't be had together: one module's checkpoint is inside of the other's."""
        return any(
            a[0] == b[0] and (a[1] == b[1] or a[1].startswith(f"{b[1]}.") or b[1].startswith(f"{a[1]}."))
            for a in self.modules
            for b in other.modules
        )


def options(trace: Trace, report: MemoryReport) -> list[Option]:
    """All of them whose predicted saving is worth a word, the most first."""
    line = timeline(trace)
    step = max(_step(line), default=0)
    found = [
        *_of_formulas(trace, _formulas.formulas(trace)),
        *_of_masks(trace),
        *_of_checkpoints(trace),
        *_of_in_place(report),
        *_unneeded(trace),
        *_held(trace, line),
    ]
    told = []
    for option in found:
        drop = option.change.predicted or fall(line, option.spans)
        if drop > _LEAST * step:
            told.append(replace(option, change=replace(option.change, predicted=drop)))
    return sorted(told, key=lambda one: -one.change.predicted)


def _step(line: BytesOverTime) -> list[int]:
    return [total - lasting for total, lasting in zip(line.totals, line.lasting, strict=True)]


def fall(line: BytesOverTime, spans: Sequence[Span]) -> int:
    """By how much the step's peak falls without these bytes."""
    totals = _step(line)
    merged: list[tuple[int, int, int]] = []
    last = -1
    for storage, since, until, size in sorted(set(spans)):
        # Two changes may do without the same memory: it is counted once.
        if storage == last and since <= merged[-1][1] + 1 and size * merged[-1][2] > 0:
            merged[-1] = (merged[-1][0], max(merged[-1][1], until), size)
        else:
            merged.append((since, until, size))
        last = storage
    return max(totals) - highest(totals, line.first, merged, sign=-1)


# --- what is computed otherwise ----------------------------------------------------------------------
def _of_formulas(trace: Trace, formulas: Iterable[Formula]) -> Iterable[Option]:
    for formula in formulas:
        after = {
            number: part.operations[-1].tick
            for part in formula.parts
            for one in part.operations
            for number in one.makes
        }
        spans = tuple(
            (number, after[number] + 1, _died(trace.storages[number], trace), trace.storages[number].bytes)
            for number in sorted(formula.freed(trace))
        )
        count = len({one.outer for one in formula.parts[0].operations})
        change = Change(
            sort="formula",
            title=f"{formula.name} is written out as {plural(count, 'call')}, and each keeps what it needs",
            write=_spelled(formula),
            place=_places.place(formula.stack),
            modules=_modules(formula),
            times=len(formula.parts),
            predicted=0,
            edits=_edits.of_formula(formula),
        )
        yield Option(change, spans, formulas=(formula,))


def _of_masks(trace: Trace) -> Iterable[Option]:
    for formula in _formulas.float_masks(trace):
        numbers = {
            number
            for part in formula.parts
            for one in part.operations
            if one.name == "bernoulli_"
            for number in one.writes
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
            predicted=0,
        )
        yield Option(change, spans, formulas=(formula,))


def _of_checkpoints(trace: Trace) -> Iterable[Option]:
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
                predicted=0,
                recomputed=again,
                edits=_edits.of_checkpoint(trace, group.calls) if group.every == 1 else (),
            )
            yield Option(change, tuple(spans), modules=group.modules)


def _of_in_place(report: MemoryReport) -> Iterable[Option]:
    for one in report.candidates:
        if one.peak_drop > 0:
            change = Change(
                sort="in-place",
                title=f"{one.operation} in place: nobody reads the old value",
                write=one.operation,
                place=one.place,
                modules=one.modules,
                times=one.times,
                predicted=one.peak_drop,
            )
            yield Option(change, (), in_place=one.keys)


def _spelled(formula: Formula) -> str:
    names = (
        ("x", "y", "z", "mask") if formula.name != "scaled_dot_product_attention" else ("q", "k", "v", "mask")
    )
    if "norm" in formula.name:
        names = ("x", "weight", "bias", "")
    return formula.call.format(*names)


def _modules(formula: Formula) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m for part in formula.parts if (m := part.operations[-1].module) is not None))


def _died(storage: Storage, trace: Trace) -> int:
    return trace.tick if storage.died is None else storage.died


# --- what is kept for nothing ------------------------------------------------------------------------
def _unneeded(trace: Trace) -> Iterable[Option]:
    """Saved for gradients that nobody asked for."""
    by_storage: dict[int, list[tuple[int, int, bool, object]]] = {}
    for save in trace.saves:
        if trace.storages[save.storage].kind == "activation" and save.tick > trace.start:
            entry = (save.tick, end_of(save, trace), save.needed is not None, save.stack)
            by_storage.setdefault(save.storage, []).append(entry)
    groups: dict[tuple[object, ...], list[tuple[object, Span]]] = {}
    for number, saves in by_storage.items():
        if trace.backwards and not any(needed for _, _, needed, _ in saves):
            stack = saves[0][3]
            span = (
                number,
                min(s[0] for s in saves) + 1,
                max(s[1] for s in saves),
                trace.storages[number].bytes,
            )
            groups.setdefault(_places.key(stack), []).append((stack, span))  # type: ignore[arg-type]
    for members in groups.values():
        change = Change(
            sort="unneeded",
            title="kept for a gradient that nobody asked for",
            write="compute it under torch.no_grad(), or detach() what comes in",
            place=_places.place(members[0][0]),  # type: ignore[arg-type]
            modules=(),
            times=len(members),
            predicted=0,
            why_untried="which of your names to detach is yours to decide",
        )
        yield Option(change, tuple(span for _, span in members))


def _held(trace: Trace, line: BytesOverTime) -> Iterable[Option]:
    """Alive at the peak though nothing reads it any more: a name holds it, or a graph that was not freed."""
    peak = line.peak()
    kept = kept_spans(trace)
    groups: dict[tuple[object, ...], list[Storage]] = {}
    for storage in trace.storages:
        alive = storage.born <= peak <= _died(storage, trace)
        needed = any(a <= peak <= b for a, b in kept.get(storage.number, ()) if b < trace.tick)
        if (
            storage.kind == "activation"
            and alive
            and not needed
            and storage.last_use < peak
            and storage.stack
        ):
            groups.setdefault(_places.key(storage.stack), []).append(storage)
    for members in groups.values():
        graph = any(one.number in kept for one in members)
        change = Change(
            sort="held",
            title="a graph that is not freed holds it" if graph else "a name holds it across backward",
            write="keep loss.item() or x.detach() instead"
            if graph
            else "del the name before backward, where it is last used",
            place=_places.place(members[0].stack),
            modules=tuple(dict.fromkeys(one.module for one in members if one.module is not None)),
            times=len(members),
            predicted=0,
            why_untried="which name holds it is not recorded",
        )
        spans = tuple((one.number, one.last_use + 1, _died(one, trace), one.bytes) for one in members)
        yield Option(change, spans)
