"""What is known at one point of the program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ._values import Grad, SourceSpot, Value, join

Guards = frozenset[tuple[str, bool]]
"""Conditions that hold, as they are written."""


class Kept(NamedTuple):
    """That an operation kept a tensor for backward."""

    node: int
    """The bit of its node."""
    spot: SourceSpot
    operation: str
    role: str
    """The argument's name, or ``result``."""
    grad: Grad
    """Whether the node is there."""
    operand: SourceSpot | None
    """The expression that was kept, where it stands apart."""
    guards: Guards


class Pending(NamedTuple):
    """A write over a kept tensor, which matters once backward goes there."""

    kept: Kept
    write: SourceSpot
    how: str
    nodes: int
    level: int
    unrecorded: bool
    """Whether it was under no_grad."""
    written: str
    """What was written, as the user calls it."""
    rule: str
    """``saved``, or ``saved-data`` where torch doesn't notice."""


class Step(NamedTuple):
    """That an optimizer's step, or a write to ``.data``, changed parameters."""

    clock: int
    owners: frozenset[str]
    spot: SourceSpot
    kind: str
    """``step`` or ``data``."""
    level: int


class Held(NamedTuple):
    """That a list was given a tensor itself, not a copy."""

    list: str
    element: str
    spot: SourceSpot


Mode = int
"""0: gradients are recorded; 1: no_grad; 2: inference mode."""


@dataclass
class FlowState:
    """Names, what has been kept and what was written."""

    names: dict[str, Value] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)
    kept: dict[int, frozenset[Kept]] = field(default_factory=dict)
    pending: dict[tuple[SourceSpot, SourceSpot, str], Pending] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    freed: dict[int, SourceSpot] = field(default_factory=dict)
    held: dict[int, frozenset[Held]] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    grown: dict[int, Value] = field(default_factory=dict)
    """What was written to a storage, for all who share it."""
    sure: set[int] = field(default_factory=set)
    """Storages whose tensor certainly is one."""
    guards: Guards = frozenset()
    mode: Mode = 0
    quiet: int = 0
    """How much less a suspicion weighs here: where nothing is trained."""
    dead: bool = False
    """Whether the point is never reached."""

    def copy(self) -> FlowState:
        return FlowState(
            dict(self.names),
            dict(self.attributes),
            dict(self.kept),
            dict(self.pending),
            self.steps,
            dict(self.freed),
            dict(self.held),
            dict(self.written),
            dict(self.grown),
            set(self.sure),
            self.guards,
            self.mode,
            self.quiet,
            self.dead,
        )

    def take(self, other: FlowState) -> None:
        """Become what another state is."""
        for name in FlowState.__dataclass_fields__:
            setattr(self, name, getattr(other, name))


def both(a: Value, b: Value) -> Value:
    """A value that hangs on all that either hangs on."""
    return replace(
        a, nodes=a.nodes | b.nodes, may=a.may | b.may, uses=a.uses | b.uses, grad=max(a.grad, b.grad)
    )


def merge(a: FlowState, b: FlowState) -> FlowState:
    """What is known where two ways meet."""
    if a.dead:
        return b
    if b.dead:
        return a
    found = a.copy()
    # Most entries are the very same: both ways come from where they parted.
    for mine, others in ((found.names, b.names), (found.attributes, b.attributes)):
        for key, value in others.items():
            known = mine.get(key)
            if known is not value:
                mine[key] = value if known is None else join(known, value)
    _unite(found.kept, b.kept)
    _unite(found.held, b.held)
    for place, value in b.grown.items():
        known = found.grown.get(place)
        if known is not value:
            found.grown[place] = value if known is None else both(known, value)
    found.written = {key: value for key, value in found.written.items() if b.written.get(key) == value}
    found.freed = {key: value for key, value in found.freed.items() if key in b.freed}
    found.pending.update(b.pending)
    found.sure |= b.sure
    found.steps = tuple(dict.fromkeys(found.steps + b.steps))
    found.guards = a.guards & b.guards
    return found


def _unite(mine: dict[int, Any], others: dict[int, Any]) -> None:
    """Add the sets of one state to those of another."""
    for place, kept in others.items():
        known = mine.get(place)
        if known is not kept:
            mine[place] = kept if known is None else known | kept
