"""Rules of custom autograd Functions, read from ``forward`` and ``backward``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, cast

from ..syntax import OPERATORS, dotted, torch_table
from ._engine import FileRun
from ._index import FunctionNode
from ._rules import HIGH, CheckRule, Suspicion
from ._state import FlowState

_SHAPES = frozenset({"shape", "is_contiguous"})


class FunctionRules:
    """Checks of one static method of a Function: does it write to tensors that are not its own?

    Args:
        run: The interpretation that collects the suspicions.
        node: ``forward`` or ``backward``.
    """

    def __init__(self, run: FileRun, node: FunctionNode) -> None:
        """Collect the method's parameters, rebound names and names that are certainly tensors."""
        self.run = run
        self.node = node
        names = [argument.arg for argument in node.args.args]
        self.ctx = names[0] if names else "ctx"
        self.given = frozenset(names[1:])
        self.rebound = frozenset(_rebound(node))
        self.tensors = frozenset(
            n.value.id
            for n in ast.walk(node)
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            if n.attr in _SHAPES or (torch_table().knows(n.attr) and not hasattr(list, n.attr))
        )

    def check(self) -> None:
        """Suspect the mistakes of the method."""
        if self.node.name == "forward":
            self._forward()
        else:
            self._backward()

    def _forward(self) -> None:
        """Suspect unmarked writes to inputs, tensors kept on ``ctx``, and marked tensors that aren't
        returned."""
        marked = _marked(self.node)
        for statement, name, how, surely in self._writes():
            if name in self.given - self.rebound and name not in marked:
                confidence = HIGH if surely or name in self.tensors else HIGH - 1
                if surely or name in self.tensors or how == "[...] =":
                    self._suspect(CheckRule.UNMARKED, confidence, statement, name, how)
        self._on_ctx()
        returned = [n for n in ast.walk(self.node) if isinstance(n, ast.Return) and n.value is not None]
        for name in sorted(marked):
            same = {name, *(variable for variable in self.rebound if self._is_only(variable, name))}
            if (
                not name.isidentifier()
                or not returned
                or any(_is_returned(exit_node, same) for exit_node in returned)
            ):
                continue
            wrote = [statement for statement, target, _, _ in self._writes() if target == name]
            self._suspect(CheckRule.DIRTY, HIGH, wrote[0] if wrote else returned[0], name, "")

    def _is_only(self, name: str, tensor: str) -> bool:
        """Return whether every value of a name is one tensor itself: ``y = x.mul_(2)``."""
        values = [
            assignment.value
            for assignment in ast.walk(self.node)
            if isinstance(assignment, ast.Assign)
            and any(isinstance(n, ast.Name) and n.id == name for t in assignment.targets for n in ast.walk(t))
        ]
        return bool(values) and all(_itself(value) == tensor for value in values)

    def _on_ctx(self) -> None:
        """Suspect an input that is kept as an attribute of ``ctx``."""
        for assignment in ast.walk(self.node):
            if isinstance(assignment, ast.Assign) and isinstance(assignment.targets[0], ast.Attribute):
                target, value = assignment.targets[0], assignment.value
                kept = dotted(target.value) == self.ctx and isinstance(value, ast.Name)
                if kept and isinstance(value, ast.Name) and value.id in self.tensors & self.given:
                    self._suspect(CheckRule.CTX, HIGH - 1, assignment, value.id, f"{self.ctx}.{target.attr}")

    def _backward(self) -> None:
        """Suspect writes to saved tensors and to incoming gradients."""
        saved = frozenset(_saved(self.node))
        for statement, name, how, surely in self._writes():
            if name in saved and name not in self.rebound:
                self._suspect(CheckRule.BACKWARD_SAVED, HIGH, statement, name, how)
            elif name in self.given - self.rebound and (surely or name in self.tensors):
                self._suspect(CheckRule.GRADIENT, HIGH - 1, statement, name, how)

    def _writes(self) -> Iterator[tuple[ast.stmt, str, str, bool]]:
        """Yield each write: the statement, the written name, the operation, whether only a tensor can be
        written so."""
        for statement in ast.walk(self.node):
            if not isinstance(statement, ast.stmt):
                continue
            target: ast.expr | None = None
            how, surely = "", False
            if isinstance(statement, ast.AugAssign) and not isinstance(statement.op, ast.MatMult):
                target, how = statement.target, f"{OPERATORS[type(statement.op)].symbol}="
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
                target, how = statement.targets[0], "[...] ="
            elif (call := _write_call(statement)) is not None:
                assert isinstance(call.func, ast.Attribute)
                target, how, surely = call.func.value, call.func.attr, True
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Name):
                yield statement, target.id, how, surely

    def _suspect(self, rule: CheckRule, confidence: int, statement: ast.stmt, name: str, how: str) -> None:
        outer, self.run.statement = self.run.statement, statement
        span = self.run.span(statement)
        self.run.statement = outer
        self.run.suspect(FlowState(), Suspicion(rule, confidence, span, name=name, how=how))


def _write_call(statement: ast.stmt) -> ast.Call | None:
    """Return the call of ``x.mul_(2)`` as a statement, or as an assigned or returned value; None for other
    statements."""
    value: Any = getattr(statement, "value", None)
    method = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    if method and value.func.attr in torch_table().writes_self:
        return cast(ast.Call, value)
    return None


def _marked(node: FunctionNode) -> frozenset[str]:
    calls = re.findall(r"mark_dirty\(([^)]*)\)", ast.unparse(node))
    return frozenset(name.strip() for names in calls for name in names.split(","))


def _is_returned(node: ast.Return, names: set[str]) -> bool:
    parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    return any(_itself(part) in names for part in parts)


def _itself(node: ast.expr | None) -> str | None:
    """Return the variable whose tensor an expression is; in-place methods return the tensor that they write
    to."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in torch_table().writes_self
    ):
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else None


def _unpacks_saved(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "saved_tensors"


def _saved(node: FunctionNode) -> Iterator[str]:
    """Yield the names that ``ctx.saved_tensors`` is unpacked into."""
    for assignment in ast.walk(node):
        if isinstance(assignment, ast.Assign) and _unpacks_saved(assignment.value):
            for target in assignment.targets:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(part, ast.Name):
                        yield part.id


def _rebound(node: FunctionNode) -> Iterator[str]:
    """Yield the names that get another value; writes to them afterwards reach the method's own tensors."""
    for assignment in ast.walk(node):
        if isinstance(assignment, ast.Assign) and not _unpacks_saved(assignment.value):
            for target in assignment.targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        yield part.id
