"""The interpreter's knowledge at one point of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from ._rules import CheckRule, Suspicion
from ._values import Grad, SourceSpan, Value, join

Guards = frozenset[tuple[str, bool]]  # conditions that hold, in their source text


class SaveEffect(NamedTuple):
    """A tensor that an operation saves for backward."""

    value: Value  # of those that are noted for a storage `PLAIN`, but for `.data`
    operation: str
    role: str  # the argument's name, or `result`
    span: SourceSpan
    node: int  # the bit of the operation's node
    grad: Grad  # whether the node exists
    operand: SourceSpan | None = None  # the expression of the saved tensor, if it is a part of its own
    guards: Guards = frozenset()
    places: frozenset[int] = frozenset()  # the storages of which the saved tensor has one


class Pending(NamedTuple):
    """A write over a saved tensor, which matters once backward reaches its node."""

    nodes: int
    quiet: int  # the state's `quiet` at the write
    suspicion: Suspicion


class ParameterUpdate(NamedTuple):
    """A parameter update: ``optimizer.step()``, or a write through ``.data``."""

    clock: int
    owners: frozenset[str]
    span: SourceSpan
    rule: CheckRule  # `CheckRule.STEP` or `CheckRule.DATA`
    confidence: int
    guards: Guards
    reached: frozenset[str] = frozenset()  # the parts that a backward has reached; empty if not known


@dataclass
class FlowState:
    """The values of names, the saved tensors and the writes."""

    names: dict[str, Value] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)
    kept: dict[int, frozenset[SaveEffect]] = field(default_factory=dict)
    pending: dict[tuple[SourceSpan, SourceSpan, str], Pending] = field(default_factory=dict)
    steps: tuple[ParameterUpdate, ...] = ()
    reached: frozenset[str] = frozenset()
    """The owners of parameters that a backward has reached since ``zero_grad``; "" if not known which."""
    maybe_reached: frozenset[str] = frozenset()  # the same through functions that aren't followed
    retained: tuple[SourceSpan, frozenset[str]] | None = None
    """A backward that keeps its graph, if none has come after it, and the owners that it may have reached."""
    freed: dict[int, SourceSpan] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    grown: dict[int, Value] = field(default_factory=dict)
    """The history that writes gave to a storage, for all values that share it."""
    sure: set[int] = field(default_factory=set)  # storages whose value certainly is a tensor
    guards: Guards = frozenset()
    bound_if: dict[tuple[str, bool], dict[str, tuple[Value, Value]]] = field(default_factory=dict)
    """By a condition, the names that its branch bound: the value after both branches, and the one before."""
    mode: int = 0  # 0: gradients are recorded; 1: no_grad; 2: inference mode
    quiet: int = 0  # steps of confidence that a suspicion loses here, because nothing is trained
    dead: bool = False  # whether the point is never reached

    def copy(self) -> FlowState:
        """Return a copy whose containers can be changed independently."""
        return self.but(**{name: getattr(self, name).copy() for name in _CONTAINERS})

    def but(self, **fields: Any) -> FlowState:  # shares all other containers
        changed = FlowState.__new__(FlowState)
        changed.__dict__ = {**self.__dict__, **fields}
        return changed

    def is_sure(self, value: Value) -> bool:
        return value.sure or not value.places.isdisjoint(self.sure)

    def assume(self, condition: tuple[str, bool]) -> None:
        """Note that a condition holds, and give names the values that they got where it held before."""
        self.guards |= {condition}
        for name, (joined, value) in self.bound_if.get(condition, {}).items():
            where = self.attributes if "." in name else self.names
            if where.get(name) is joined:
                where[name] = value


_CONTAINERS = ("names", "attributes", "kept", "pending", "freed", "written", "grown", "sure", "bound_if")


def both(a: Value, b: Value) -> Value:
    return a._replace(
        nodes=a.nodes | b.nodes, may=a.may | b.may, uses=a.uses | b.uses, grad=max(a.grad, b.grad)
    )


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "names": join, "attributes": join, "kept": frozenset.union, "grown": both,
}  # fmt: skip
"""By a dictionary of a state, the union of what two branches have there under one key."""


def merge(a: FlowState, b: FlowState) -> FlowState:
    """Return the state after two branches meet."""
    if a.dead:
        return b
    if b.dead:
        return a
    # `a` is given up, except for what its names and attributes were bound to.
    merged = a.but(names=a.names.copy(), attributes=a.attributes.copy())
    for name, joined in _JOINS.items():
        mine, theirs = getattr(merged, name), getattr(b, name)
        # Mostly all entries are identical, because both branches come from the same state.
        for key, value in theirs.items() if mine != theirs else ():
            known = mine.get(key)
            if known is not value:
                mine[key] = value if known is None else joined(known, value)
    if a.written != b.written:
        merged.written = {place: now for place, now in a.written.items() if b.written.get(place) == now}
    merged.freed = {key: value for key, value in merged.freed.items() if key in b.freed}
    merged.pending.update(b.pending)
    merged.sure |= b.sure
    merged.steps = a.steps if a.steps == b.steps else tuple(dict.fromkeys(a.steps + b.steps))
    merged.reached |= b.reached
    merged.retained = merged.retained or b.retained
    merged.maybe_reached |= b.maybe_reached
    merged.guards = a.guards & b.guards
    merged.bound_if = {key: names for key, names in a.bound_if.items() if b.bound_if.get(key) is names}
    return merged


def alternatives(
    state: FlowState, choices: Sequence[Value], call: Callable[[FlowState, Value], Value]
) -> Value:
    """Return the result of a call of any one of several values; what happens in only one is less sure."""
    ends = [state.but(quiet=state.quiet + 1).copy() for _ in choices]
    results = list(map(call, ends, choices))
    vars(state).update(vars(reduce(merge, ends)), quiet=state.quiet)
    return reduce(join, results)
