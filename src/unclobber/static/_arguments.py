"""Arguments of a call, evaluated."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ._values import Constant, Value


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values of a call's arguments, with their expressions."""

    values: list[Value]
    keywords: dict[str, Value]
    nodes: list[ast.expr]
    starred: bool

    def is_true(self, name: str) -> bool:
        """Return whether a keyword is given as True."""
        value = self.keywords.get(name)
        return value is not None and value.data == Constant(True)

    @property
    def every(self) -> list[Value]:
        return [*self.values, *self.keywords.values()]


def retains_graph(given: Arguments) -> bool:
    """Return whether a backward call may keep the graph: ``retain_graph`` or ``create_graph`` is given and
    not False or None."""
    for name in ("retain_graph", "create_graph"):
        value = given.keywords.get(name)
        if value is not None and value.data not in (Constant(False), Constant(None)):
            return True
    return False


def each_of(value: Value) -> tuple[Value, ...]:
    return value.items if value.kind == "sequence" else (value,)
