"""Savings of in-place operations: of those that the program has, and of those that it could have.

Both are counterfactuals on the recorded timeline. An operation spares memory in place only while
the old and the new value would be alive together. Mostly it spares nothing at the peak, because autograd
keeps a copy of the old one, or the old one dies at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..derivatives import Rule, by_operation, in_place_row
from . import _places
from ._facts import InPlaceCandidate, InPlaceUse
from ._functions import in_place_form
from ._timeline import BytesOverTime, end_of, saves_by_storage
from ._trace import Operand, Operation, PackedSave, Trace, modules_of

Span = tuple[int, int, int]
"""First tick, last tick, bytes."""


@dataclass(frozen=True)
class _Chance:
    """A call that could have been in place."""

    operation: Operation
    operand: int
    """Position of the operand that would be written."""
    span: Span
    """Ticks at which old and new value were alive together, and the bytes of the old one."""


def gains(
    trace: Trace, line: BytesOverTime
) -> tuple[tuple[InPlaceUse, ...], tuple[InPlaceCandidate, ...], int]:
    """Return the program's in-place operations, the possible ones, and the drop of the peak with all of
    these at once."""
    totals = line.totals
    used = _used(trace, line, totals)
    groups = _chances(trace)
    merged: dict[tuple[object, ...], list[tuple[tuple[object, ...], list[_Chance]]]] = {}
    for key, chances in groups.items():
        first = chances[0]
        line_key = (*_places.key(first.operation.stack), first.operation.function, first.operand)
        merged.setdefault(line_key, []).append(((*key, first.operand), chances))
    candidates = [_candidate(members, line, totals) for members in merged.values()]
    every = [chance.span for chances in groups.values() for chance in chances]
    together = max(totals) - highest(totals, line.first, every, sign=-1)
    candidates.sort(key=lambda candidate: (-candidate.peak_drop, -candidate.bytes))
    return tuple(used), tuple(candidates), together


def highest(totals: Sequence[int], first: int, spans: Iterable[Span], *, sign: int) -> int:
    """Return the peak with ``sign`` times the spans' bytes added."""
    # Differences at the spans' ends, added up once, because there is a span for each call.
    change = [0] * (len(totals) + 1)
    for since, until, size in spans:
        start, end = max(since - first, 0), min(until - first, len(totals) - 1)
        if start <= end:
            change[start] += sign * size
            change[end + 1] -= sign * size
    highest = running = 0
    for total, step in zip(totals, change, strict=False):
        running += step
        highest = max(highest, total + running)
    return highest


# --- the in-place operations that are there ----------------------------------------------------------
def _used(trace: Trace, line: BytesOverTime, totals: Sequence[int]) -> list[InPlaceUse]:
    """Return the in-place operations of forward that write an activation, by line."""
    groups: dict[tuple[object, ...], list[tuple[Operation, Span, str]]] = {}
    saves = saves_by_storage(trace)
    for operation in trace.operations:
        if operation.backward or operation.tick <= trace.began or not operation.operands:
            continue
        target = operation.operands[0]
        if not _is_in_place(operation) or trace.storages[target.storage].kind != "activation":
            continue
        span, reason = _had_it_not_been(operation, target, trace, saves)
        groups.setdefault((*_places.key(operation.stack), operation.name), []).append(
            (operation, span, reason)
        )
    return [_use(members, line, totals) for members in groups.values()]


def _use(
    members: list[tuple[Operation, Span, str]], line: BytesOverTime, totals: Sequence[int]
) -> InPlaceUse:
    """Return the facts on the in-place operations of one line."""
    spans = [span for _, span, _ in members]
    spared = max(0, highest(totals, line.first, spans, sign=1) - max(totals))
    return InPlaceUse(
        place=_places.place(members[0][0].stack),
        operation=members[0][0].name,
        times=len(members),
        bytes=sum(size for _, _, size in spans),
        peak_saved=spared,
        reason=members[0][2],
    )


def _is_in_place(operation: Operation) -> bool:
    """Return whether the program requested this write of the first operand, and an out-of-place form
    exists."""
    name = operation.name
    return (
        operation.in_place_requested
        and name.endswith("_")
        and not name.startswith("_")
        # `out=` writes another argument than the first.
        and operation.writes == (operation.operands[0].storage,)
        and bool(by_operation(name[:-1]))
        and name not in ("copy_", "resize_", "set_")
    )


def _had_it_not_been(
    operation: Operation, target: Operand, trace: Trace, saves: dict[int, list[PackedSave]]
) -> tuple[Span, str]:
    """Return the extra bytes of the out-of-place form, with their ticks, and the reason in words."""
    size = target.bytes
    rule = _rule(operation.name[:-1], operation.overload)
    if rule is not None and target.requires_grad:
        own = in_place_row(rule) or rule
        keeps_old = rule.keeps("self") is not None
        copies = own.keeps("self") is not None
        if copies:
            return (operation.tick, operation.tick, 0), "autograd keeps a copy of the old value"
        if keeps_old:
            end = max(
                (
                    end_of(save, trace)
                    for save in saves.get(target.storage, ())
                    if save.tick >= operation.tick
                ),
                default=operation.tick,
            )
            return (operation.tick, end, size), "out of place, backward would keep the old value too"
    return (operation.tick, operation.tick, size), "out of place, both values live during this operation only"


# --- those that could be -----------------------------------------------------------------------------
def _chances(trace: Trace) -> dict[tuple[object, ...], list[_Chance]]:
    """Return the calls that could be in place, by line and module; only lines of which every call could."""
    saves = saves_by_storage(trace)
    calls: Counter[tuple[object, ...]] = Counter()
    by_line: dict[tuple[object, ...], list[_Chance]] = {}
    taken: set[int] = set()
    for operation in trace.operations:
        if operation.backward or operation.tick <= trace.began or operation.output is None:
            continue
        key = (*_places.key(operation.stack), operation.module, operation.function)
        calls[key] += 1
        chance = _chance(operation, trace, saves, taken)
        if chance is not None:
            # A second candidate on one storage would find the value of the first.
            taken.add(operation.operands[chance.operand].storage)
            by_line.setdefault(key, []).append(chance)
    return {
        key: chances
        for key, chances in by_line.items()
        # An edit of a line changes all its calls. A key of two parts has no line, and so nothing to edit.
        if len(chances) == calls[key] and len({chance.operand for chance in chances}) == 1 and len(key) > 2
    }


def _chance(
    operation: Operation, trace: Trace, saves: dict[int, list[PackedSave]], taken: set[int]
) -> _Chance | None:
    """Return how a call could be in place, or None. Each storage is offered once."""
    rule = _rule(operation.name, operation.overload)
    if rule is None or in_place_row(rule) is None:
        return None
    # Only what the program called: `mul` inside of `dropout` can't be written otherwise, but `dropout` has an
    # in-place form (test_in_place.py, test_dropout_is_one_operation).
    if operation.function is None or in_place_form(operation.function) is None:
        return None
    positions = [0]
    # a + b is b + a, so either operand may take the result (test_in_place.py, test_either_operand_of_a_sum).
    if operation.name == "add" and operation.unit_alpha and len(operation.operands) > 1:
        positions.append(1)
    for position in positions:
        if position < len(operation.operands) and _free(operation, position, rule, trace, saves):
            old = trace.storages[operation.operands[position].storage]
            until = trace.tick if old.died is None else old.died
            if old.number not in taken:
                return _Chance(operation, position, (operation.tick, until, old.bytes))
    return None


def _free(
    operation: Operation, position: int, rule: Rule, trace: Trace, saves: dict[int, list[PackedSave]]
) -> bool:
    """Return whether neither autograd nor the program reads the operand's old value after the operation."""
    operand, output = operation.operands[position], operation.output
    assert output is not None
    old = trace.storages[operand.storage]
    new = trace.storages[output.storage]
    same = (operand.shape, operand.strides, operand.dtype) == (output.shape, output.strides, output.dtype)
    fresh = operation.makes == (new.number,) and new.kind == "activation"
    if not (same and fresh and operand.whole and not operand.leaf and old.kind == "activation" and old.made):
        return False
    # A value alive at the end still has a name, and the program may read it without any operation.
    if old.died is None or old.last_use > operation.tick:
        return _kept_by_itself_alone(operation, old.number, rule, trace, saves) and old.died is not None
    # A tensor that needs no gradient must not come to need one behind its other names.
    if output.requires_grad and not operand.requires_grad:
        return False
    return not any(
        end_of(save, trace) >= operation.tick and not _own(save, operation)
        for save in saves.get(old.number, ())
    ) and _keeps_no_copy(operation, position, rule, saves, old.number)


def _kept_by_itself_alone(
    operation: Operation, number: int, rule: Rule, trace: Trace, saves: dict[int, list[PackedSave]]
) -> bool:
    """Return whether the old value is read later only because this operation keeps it, and in place it
    keeps none."""
    in_place = in_place_row(rule) or rule
    if in_place is rule or in_place.keeps("self") is not None:
        return False
    mine = [save for save in saves.get(number, ()) if end_of(save, trace) >= operation.tick]
    if not mine or not all(_own(save, operation) and save.role == "self" for save in mine):
        return False
    last = trace.storages[number].last_use
    readers = [other for other in trace.operations if other.tick > operation.tick and number in other.reads]
    return all(reader.backward for reader in readers) and bool(readers) and readers[-1].tick == last


def _keeps_no_copy(
    operation: Operation, position: int, rule: Rule, saves: dict[int, list[PackedSave]], number: int
) -> bool:
    """Return whether the in-place form saves no copy of what this operation saves now."""
    if position != 0:
        return not any(_own(save, operation) for save in saves.get(number, ()))
    in_place = in_place_row(rule) or rule
    own = [save for save in saves.get(number, ()) if _own(save, operation)]
    # In place, autograd keeps a copy of the operand that it keeps now, so nothing is gained.
    return not own or in_place.keeps("self") is None


def _own(save: PackedSave, operation: Operation) -> bool:
    """Return whether this operation made the save: inputs are packed just before it runs, outputs just
    after."""
    near = save.tick in (operation.tick - 1, operation.tick)
    return near and _places.key(save.stack) == _places.key(operation.stack)


def _candidate(
    members: list[tuple[tuple[object, ...], list[_Chance]]], line: BytesOverTime, totals: Sequence[int]
) -> InPlaceCandidate:
    """Return the candidate of one line, in all the modules that run it."""
    chances = [chance for _, some in members for chance in some]
    first = chances[0].operation
    spans = [chance.span for chance in chances]
    return InPlaceCandidate(
        place=_places.place(first.stack),
        operation=f"{first.function}_",
        operand="self" if chances[0].operand == 0 else "other",
        modules=modules_of(chance.operation for chance in chances),
        times=len(chances),
        bytes=sum(size for _, _, size in spans),
        peak_drop=max(totals) - highest(totals, line.first, spans, sign=-1),
        keys=tuple(key for key, _ in members),
    )


# --- shared ------------------------------------------------------------------------------------------
def _rule(name: str, overload: str) -> Rule | None:
    """Return the rule of a functional operation; that of ``Tensor_Scalar`` for ``Scalar`` if there is no
    other."""
    rules = [rule for rule in by_operation(name) if rule.operation == name and rule.key == "Default"]
    for wanted in (overload, f"Tensor_{overload}"):
        for rule in rules:
            if rule.overload == wanted:
                return rule
    return rules[0] if len(rules) == 1 else None
