"""A call in the source with its arguments evaluated, and the table of the functions that follow calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple

from ._binding import elements
from ._engine import FileRun
from ._state import FlowState
from ._values import PLAIN, Constant, Value


class FollowedCall(NamedTuple):
    """A call with the values of its arguments."""

    node: ast.Call
    name: str  # the last part of the callee's name; empty if it has none
    values: list[Value]  # the positional arguments
    keywords: dict[str, Value]
    nodes: list[ast.expr]  # the positional arguments' expressions; empty if one is starred
    receiver: Value = PLAIN  # the value whose method is called
    full: str = ""  # the full name of a library's function: `torch.nn.functional.relu`

    @property
    def holder(self) -> ast.expr:
        return self.node.func.value if isinstance(self.node.func, ast.Attribute) else self.node.func

    @property
    def every(self) -> list[Value]:
        return [*self.values, *self.keywords.values()]

    @property
    def first(self) -> Value:
        return self.values[0] if self.values else PLAIN

    def is_true(self, name: str) -> bool:
        return bool(self.keywords.get(name, PLAIN).data == Constant(True))

    @property
    def retains_graph(self) -> bool:
        # `retain_graph`, once `retain_variables`, or `create_graph` is given, neither as False nor as None.
        given = [value for name, value in self.keywords.items() if name.startswith(("retain_", "create_"))]
        return any(value.data not in (Constant(False), Constant(None)) for value in given)


def call_of(
    run: FileRun, node: ast.Call, state: FlowState, name: str, receiver: Value = PLAIN, full: str = ""
) -> FollowedCall:
    """Evaluate the arguments; a starred or doubly starred one hides which parameter gets which value."""
    values: list[Value] = []
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = run.evaluate(argument.value, state)
            values += value.items if value.kind == "sequence" else [elements(run, value, state)]
        else:
            values.append(run.evaluate(argument, state))
    named = [(keyword.arg, run.evaluate(keyword.value, state)) for keyword in node.keywords]
    keywords = {name: value for name, value in named if name}
    # Behind a starred argument the positions are unknown, so no expression is blamed as an operand.
    nodes = [] if starred else node.args
    run.call = node
    return FollowedCall(node, name, values, keywords, nodes, receiver, full)


Transfer = Callable[[FileRun, FollowedCall, FlowState], Value | None]
"""Returns a call's result and records its effects; None for a call that it doesn't know."""
transfer_functions: dict[tuple[str, str], Transfer] = {}
"""By the receiver's kind (of functions ``builtin`` or ``torch``, or ``any``) and method, or ``__call__``."""


def transfers(kinds: str, names: str) -> Callable[[Transfer], Transfer]:
    """Register a transfer function for some kinds and names, each separated by spaces."""

    def register(function: Transfer) -> Transfer:
        keys = [(kind, name) for kind in kinds.split() for name in names.split() or ("",)]
        transfer_functions.update(dict.fromkeys(keys, function))
        return function

    return register


def transferred(run: FileRun, kind: str, name: str, call: FollowedCall, state: FlowState) -> Value | None:
    transfer = transfer_functions.get((kind, name))
    return None if transfer is None else transfer(run, call, state)
