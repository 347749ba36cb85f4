"""Savings of in-place operations: of those that the program has, and of those that it could have.

Both are counterfactuals on the recorded timeline. An operation spares memory in place only while
the old and the new value would be alive together. Mostly it spares nothing at the peak, because autograd
keeps a copy of the old one, or the old one dies at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..derivatives import Rule, by_operation, in_place_row
from . import _places
from ._facts import InPlaceCandidate, InPlaceUse
from ._functions import in_place_form
from ._timeline import BytesOverTime, Span
from ._trace import Operand, Operation, PackedSave, Trace, grouped, modules_of


@dataclass(frozen=True)
class _Call:
    """A call that is in place, or could have been."""

    operation: Operation
    operand: int  # position of the operand that is, or would be, written
    span: Span  # ticks at which old and new value would be, or were, both alive, and the old one's bytes
    reason: str = ""

    @property
    def line(self) -> tuple[object, ...]:
        return _places.key(self.operation.stack)

    @property
    def key(self) -> tuple[object, ...]:  # it recognises the call in another run
        return (*self.line, self.operation.module, self.operation.function, self.operand)


def gains(trace: Trace) -> tuple[tuple[InPlaceUse, ...], tuple[InPlaceCandidate, ...], int]:
    """Return the program's in-place operations, the possible ones, and their joint drop of the peak."""
    forward = [op for op in trace.operations if not op.backward and op.tick > trace.began]
    chances = _chances(trace, forward)
    used = grouped(_used(trace, forward), lambda call: (call.line, call.operation.name))
    lines = grouped(chances, lambda call: (call.line, call.key[-2:]))
    candidates = [_candidate(calls, trace.bytes) for calls in lines.values()]
    candidates.sort(key=lambda candidate: (-candidate.peak_drop, -candidate.bytes))
    uses = [_use(calls, trace.bytes) for calls in used.values()]
    return tuple(uses), tuple(candidates), -_rise(chances, trace.bytes, -1)


def _rise(calls: Iterable[_Call], line: BytesOverTime, sign: int) -> int:
    return line.highest(line.totals, (call.span for call in calls), sign=sign) - max(line.totals)


def _use(calls: list[_Call], line: BytesOverTime) -> InPlaceUse:
    """Return the facts on the in-place operations of one line."""
    first = calls[0].operation
    return InPlaceUse(
        place=_places.place(first.stack),
        operation=first.name,
        times=len(calls),
        bytes=sum(call.span[-1] for call in calls),
        peak_saved=max(0, _rise(calls, line, 1)),
        reason=calls[0].reason,
    )


def _candidate(calls: list[_Call], line: BytesOverTime) -> InPlaceCandidate:
    """Return the candidate of one line, in all the modules that run it."""
    first = calls[0].operation
    return InPlaceCandidate(
        place=_places.place(first.stack),
        operation=f"{first.function}_",
        operand="self" if calls[0].operand == 0 else "other",
        modules=modules_of(call.operation for call in calls),
        times=len(calls),
        bytes=sum(call.span[-1] for call in calls),
        peak_drop=-_rise(calls, line, -1),
        keys=tuple(dict.fromkeys(call.key for call in calls)),
    )


# --- the in-place operations that are there ----------------------------------------------------------
def _used(trace: Trace, forward: Iterable[Operation]) -> Iterator[_Call]:
    """Yield those that write an activation, each with the bytes of its out-of-place form and why."""
    saving = {_places.key(save.stack) for save in trace.saves}
    for operation in forward:
        if operation.operands and _is_in_place(operation):
            target = operation.operands[0]
            if trace.storages[target.storage].kind == "activation":
                saves = _places.key(operation.stack) in saving
                yield _spared(trace, operation, target, saves=saves)


def _spared(trace: Trace, operation: Operation, target: Operand, *, saves: bool) -> _Call:
    """Return an in-place operation, with the extra bytes of its out-of-place form and why.

    Args:
        saves: Whether a tensor is saved on its line. Nothing is in a custom Function's forward, whose tensors
            require grad all the same.
    """
    until, size = operation.tick, target.bytes
    reason = "out of place, both values live during this operation only"
    rule = _rule(operation.name[:-1], operation.overload)
    if rule is not None and target.requires_grad and saves:
        if _keeps_self(in_place_row(rule) or rule, operation):
            size, reason = 0, "autograd keeps a copy of the old value"
        elif _keeps_self(rule, operation):
            reason = "out of place, backward would keep the old value too"
            later = [save for save in trace.storages[target.storage].saves if save.tick >= operation.tick]
            until = max(map(trace.end, later), default=until)
    return _Call(operation, 0, (target.storage, operation.tick, until, size), reason)


# --- those that could be -----------------------------------------------------------------------------
def _chances(trace: Trace, forward: Iterable[Operation]) -> list[_Call]:
    """Return the calls that could be in place; only of lines of which every call could."""
    lines: dict[tuple[object, ...], list[_Call | None]] = {}
    taken: set[int] = set()
    for operation in forward:
        if operation.output is not None:
            chance = _chance(trace, operation, taken)
            key = (_places.key(operation.stack), operation.module, operation.function)
            lines.setdefault(key, []).append(chance)
            if chance is not None:
                # A second candidate on one storage would find the value of the first.
                taken.add(operation.operands[chance.operand].storage)
    # An edit of a line changes all its calls. Without a line there is nothing to edit.
    return [
        chance
        for (line, *_), chances in lines.items()
        if line and len({chance and chance.operand for chance in chances}) == 1
        for chance in chances
        if chance is not None
    ]


def _chance(trace: Trace, operation: Operation, taken: set[int]) -> _Call | None:
    """Return how a call could be in place, or None. Each storage is offered once."""
    rule = _rule(operation.name, operation.overload)
    in_place = None if rule is None else in_place_row(rule)
    # Only what the program called: `mul` inside of `dropout` can't be written otherwise, but `dropout`
    # has an in-place form (test_in_place.py, test_dropout_is_one_operation).
    if in_place is None or operation.function is None or in_place_form(operation.function) is None:
        return None
    # a + b is b + a, so either operand may take the result (test_in_place.py,
    # test_either_operand_of_a_sum).
    either = operation.name == "add" and operation.arguments[1].get("alpha", 1) == 1
    keeps_old = _keeps_self(in_place, operation)
    for position, operand in enumerate(operation.operands[: 2 if either else 1]):
        if operand.storage not in taken and _free(trace, operation, position, keeps_old=keeps_old):
            span = trace.span(trace.storages[operand.storage], operation.tick)
            return _Call(operation, position, span)
    return None


def _free(trace: Trace, operation: Operation, position: int, *, keeps_old: bool) -> bool:
    """Return whether neither autograd nor the program reads the operand's old value after the operation.

    Args:
        keeps_old: Whether autograd keeps a copy of the old value if the operation is in place.
    """
    operand, output = operation.operands[position], operation.output
    assert output is not None
    old, new = trace.storages[operand.storage], trace.storages[output.storage]
    same = (operand.shape, operand.strides, operand.dtype) == (output.shape, output.strides, output.dtype)
    fresh = operation.makes == (new.number,) and new.kind == "activation"
    made = operand.whole and not operand.leaf and old.kind == "activation" and old.maker is not None
    # A value alive at the end still has a name, and the program may read it without any operation.
    if not (same and fresh and made) or old.died is None:
        return False
    alive = [save for save in old.saves if trace.end(save) >= operation.tick]
    others = [save for save in alive if not _own(save, operation)]
    if old.last_use > operation.tick:
        # Read later only because this operation keeps it, and in place it keeps none.
        readers = [op for op in trace.operations if op.tick > operation.tick and old.number in op.reads]
        only_here = alive and not others and all(save.role == "self" for save in alive)
        last = bool(readers) and readers[-1].tick == old.last_use
        return bool(only_here and not keeps_old and last and all(reader.backward for reader in readers))
    # A tensor that needs no gradient must not come to need one behind its other names.
    if others or (output.requires_grad and not operand.requires_grad):
        return False
    # In place, autograd would keep a copy of the operand that it keeps now, so nothing would be gained.
    return not any(_own(save, operation) for save in old.saves) or (position == 0 and not keeps_old)


def _is_in_place(operation: Operation) -> bool:
    """Return whether the program requested this write, and an out-of-place form exists."""
    name = operation.name
    return (
        (operation.outer is None or operation.outer.in_place)
        and name.endswith("_")
        and not name.startswith("_")
        # `out=` writes another argument than the first.
        and operation.writes == (operation.operands[0].storage,)
        and bool(by_operation(name[:-1]))
        and name not in ("copy_", "resize_", "set_")
    )


def _keeps_self(rule: Rule, operation: Operation) -> bool:
    """Return whether a gradient that the operation needs here reads its first operand: ``mul`` by a number
    needs none that does."""
    given = zip(rule.arguments, operation.arguments[0], strict=False)
    needed = {
        argument.name for argument, value in given if isinstance(value, Operand) and value.requires_grad
    }
    return rule.keeps("self") is not None and bool(rule.readers("self", needed))


def _own(save: PackedSave, operation: Operation) -> bool:
    # Inputs are packed just before it runs, outputs just after.
    near = save.tick in (operation.tick - 1, operation.tick)
    return near and _places.key(save.stack) == _places.key(operation.stack)


def _rule(name: str, overload: str) -> Rule | None:  # `Tensor_Scalar`'s for `Scalar`, if there is no other
    rules = [rule for rule in by_operation(name) if rule.operation == name and rule.key == "Default"]
    for wanted in (overload, f"Tensor_{overload}"):
        for rule in rules:
            if rule.overload == wanted:
                return rule
    return rules[0] if len(rules) == 1 else None
