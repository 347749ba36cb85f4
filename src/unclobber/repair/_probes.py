"""Calls inserted into a program just before it writes, by which a run finds other holders of the tensor.

A statement that writes in place shows its target: ``h`` of ``h *= 2``, ``x`` of ``x[mask] = 0``,
``self.norm(pre)`` of ``self.norm(pre).mul_(2)``. Names and the objects they lead to are inspected before the
statement or the operand that is written, results of calls as they are passed on. The code keeps its places.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from ..syntax import parse_expression, torch_table
from ._syntax import Source, parse, walk
from ._text import Encoded, decode
from .fixers._inplace import in_place, is_inplace_name

PLACE = "__unclobber_place__"
PASSED = "__unclobber_passed__"
"""Builtin names under which the inserted calls find their callbacks (``_holders``)."""


@dataclass(frozen=True, slots=True)
class WriteStatement:
    """A statement that writes."""

    path: str  # real path of its file
    line: int  # a line of it, 1-based
    column: int  # a column of it, 1-based, in characters


def instrumented(source: str | bytes, name: str, writes: Collection[WriteStatement]) -> CodeType:
    """Return the code of a file, with probes of the tensors that some of its statements write, if found."""
    encoded = decode(source) if isinstance(source, bytes) else Encoded(source, "utf-8")
    parsed = parse(encoded.text) if writes and encoded is not None else None
    if parsed is not None:
        statements = [node for node in parsed.nodes if isinstance(node, ast.stmt)]
        for write in writes:
            at = parsed.at(write.line, write.column)
            covering = [node for node in statements if parsed.start(node) <= at < parsed.end(node)]
            if covering:
                _look(parsed, covering[-1], (write.path, write.line, write.column))
    code = source if parsed is None else ast.fix_missing_locations(parsed.tree)
    # dont_inherit, or the future imports of this file would apply to the program.
    return compile(code, name, "exec", dont_inherit=True)


def _look(source: Source, statement: ast.stmt, key: tuple[str, int, int]) -> None:
    """Insert the probes of one statement: before it for what it assigns to, around an operand of a call."""
    before: list[ast.stmt] = []
    new: dict[ast.AST, ast.AST | list[ast.stmt]] = {}
    for written in _written(statement, source):
        places, root = _peeled(written)
        is_stored = isinstance(getattr(written, "ctx", None), ast.Store)
        if is_stored and isinstance(statement, ast.Assign):
            places = places[:-1]  # an assignment makes this one: before it, there may be none
        if places:
            # Copies of the places, for reading and not for assignment; none runs after a true one.
            names = map(ast.unparse, places)
            read = [_call(PLACE, (*key, name), parse_expression(name)) for name in names]
            look = read[0] if len(read) == 1 else ast.BoolOp(ast.Or(), read)
            for node in ast.walk(look):
                ast.copy_location(node, written)
            if is_stored:
                before.append(ast.copy_location(ast.Expr(look), statement))
            else:
                # Before the statement, a comprehension's variable would have no value yet.
                both = ast.Tuple([look, written], ast.Load())
                new[written] = ast.copy_location(ast.Subscript(both, ast.Constant(1), ast.Load()), written)
        elif root is not None:
            new[root] = ast.copy_location(_call(PASSED, key, root), root)
    if before:
        new[statement] = [*before, statement]
    _Changed(new).visit(source.tree)


def _written(statement: ast.stmt, source: Source) -> Iterator[ast.expr]:
    """Yield the expressions that a statement itself writes in place."""
    if isinstance(statement, ast.AugAssign):
        yield statement.target
    if isinstance(statement, ast.Assign):
        yield from (node for node in statement.targets if isinstance(node, ast.Subscript | ast.Attribute))
    own = (node for node in walk(statement) if next(source.statements_round(node), None) is statement)
    yield from (call.target for node in own if (call := in_place(node, source)))


def _peeled(node: ast.expr) -> tuple[list[ast.expr], ast.expr | None]:
    """Return the names, attributes and items that an expression is built on, outermost name first; or the
    call that its tensor comes from."""
    places: list[ast.expr] = []
    while True:
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            places.append(node)
            if isinstance(node, ast.Name):
                return places[::-1], None
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _keeps(node.func.attr):
            places = []
            node = node.func.value
        elif isinstance(node, (ast.Call, ast.NamedExpr)):
            return [], node
        else:
            return [], None


def _keeps(method: str) -> bool:  # the tensor is further left
    return is_inplace_name(method) or method in torch_table().returns_views | {"flatten"}


def _call(function: str, facts: tuple[str | int, ...], value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(function, ast.Load()), [*map(ast.Constant, facts), value], [])


class _Changed(ast.NodeTransformer):
    """Transformer that puts other nodes in the place of some. They may hold the old ones."""

    def __init__(self, new: Mapping[ast.AST, ast.AST | list[ast.stmt]]) -> None:
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        return self._new.get(node, self.generic_visit(node))
