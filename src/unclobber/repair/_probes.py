"""Calls inserted into a program just before it writes, so that a run can find other holders of the written
tensor.

A statement that writes in place shows its target: ``h`` of ``h *= 2``, ``x`` of ``x[mask] = 0``,
``self.norm(pre)`` of ``self.norm(pre).mul_(2)``. Names and the objects they lead to are inspected before the
statement, results of calls as they are passed on. The code keeps its lines and columns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType

from ..syntax import is_in_place, torch_table

PLACE = "__unclobber_place__"
PASSED = "__unclobber_passed__"
"""Builtin names under which the inserted calls find their callbacks (``_holders``)."""


@dataclass(frozen=True, slots=True)
class WriteStatement:
    """A statement that writes."""

    path: str
    """Real path of its file."""
    line: int
    """A line of it, 1-based."""
    column: int
    """A column of it, 1-based, in characters."""


def instrumented(source: str | bytes, name: str, writes: Iterable[WriteStatement]) -> CodeType:
    """Return the code of a file, with probes of the tensors that some statements write.

    Args:
        source: The file's text.
        name: The file name of the code.
        writes: Statements of this file; those that aren't found are skipped.
    """
    tree = ast.parse(source, name)
    text = source if isinstance(source, str) else ast.unparse(tree)
    lines = text.splitlines() if isinstance(source, str) else source.decode("utf-8", "replace").splitlines()
    for write in writes:
        statement = _statement(tree, write.line, _bytes_before(lines, write))
        if statement is not None:
            _look(tree, statement, (write.path, write.line, write.column))
    ast.fix_missing_locations(tree)
    code: CodeType = compile(tree, name, "exec", dont_inherit=True)
    return code


def _bytes_before(lines: list[str], write: WriteStatement) -> int:
    line = lines[write.line - 1] if write.line <= len(lines) else ""
    # `ast` counts columns in bytes of UTF-8, a site in characters.
    return len(line[: write.column - 1].encode())


def _statement(tree: ast.Module, line: int, column: int) -> ast.stmt | None:
    """Return the innermost statement that covers a position; column in bytes."""
    inner: ast.stmt | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        if start <= (line, column) < end and (inner is None or start >= (inner.lineno, inner.col_offset)):
            inner = node
    return inner


def _look(tree: ast.Module, statement: ast.stmt, key: tuple[str, int, int]) -> None:
    """Insert the probes of one statement: before it for names, around the call for a call's result."""
    before: list[ast.stmt] = []
    for written in _written(statement):
        places, root = _peeled(written)
        if places:
            look = ast.Expr(_any(_call(PLACE, key, place, named=True) for place in places))
            before.append(ast.copy_location(look, statement))
        elif root is not None:
            _Replaced(root, key).visit(statement)
    if before:
        _insert_before(tree, statement, before)
    for new in before:
        for node in ast.walk(new):
            ast.copy_location(node, statement)


def _written(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions that a statement itself writes in place."""
    if isinstance(statement, ast.AugAssign):
        yield statement.target
    if isinstance(statement, ast.Assign):
        yield from (
            target for target in statement.targets if isinstance(target, (ast.Subscript, ast.Attribute))
        )
    for node in _own_nodes(statement):
        if not isinstance(node, ast.Call):
            continue
        if any(_is_true(keyword, "inplace") for keyword in node.keywords) and node.args:
            yield node.args[0]
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "out")
        if isinstance(node.func, ast.Attribute) and _is_inplace(node.func.attr):
            # `torch.relu_(x)` writes its argument, `x.relu_()` its receiver
            yield from ([node.args[0]] if node.args and _is_path(node.func.value) else [])
            yield node.func.value
        elif isinstance(node.func, ast.Name) and _is_inplace(node.func.id) and node.args:
            yield node.args[0]


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield all nodes of a statement except those of inner statements, functions and comprehensions."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.stmt, ast.Lambda, ast.comprehension, ast.ExceptHandler))
        )


def _is_true(keyword: ast.keyword, name: str) -> bool:
    return keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is True


def _is_inplace(name: str) -> bool:
    return is_in_place(name) and not name.startswith("_")


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


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


def _keeps(method: str) -> bool:
    """Return whether a method returns its own tensor or a view of it, so that the tensor is found further
    left."""
    return _is_inplace(method) or method in torch_table().returns_views | {"flatten"}


def _any(calls: Iterable[ast.expr]) -> ast.expr:
    """Join calls by ``or``: the first one that returns True is the last one that runs."""
    parts = list(calls)
    return parts[0] if len(parts) == 1 else ast.BoolOp(ast.Or(), parts)


def _call(function: str, key: tuple[str, int, int], value: ast.expr, *, named: bool) -> ast.expr:
    constants: list[ast.expr] = [ast.Constant(part) for part in key]
    if named:
        constants.append(ast.Constant(ast.unparse(value)))
        value = _loaded(value)
    return ast.Call(ast.Name(function, ast.Load()), [*constants, value], [])


def _loaded(value: ast.expr) -> ast.expr:
    """Return a copy of an expression for reading, not for assignment."""
    new: ast.expr = ast.parse(ast.unparse(value), mode="eval").body
    return new


class _Replaced(ast.NodeTransformer):
    """Transformer that wraps one node in a call."""

    def __init__(self, wanted: ast.expr, key: tuple[str, int, int]) -> None:
        self._wanted = wanted
        self._key = key

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._wanted:
            assert isinstance(node, ast.expr)
            return ast.copy_location(_call(PASSED, self._key, node, named=False), node)
        return self.generic_visit(node)


def _insert_before(tree: ast.Module, statement: ast.stmt, new: list[ast.stmt]) -> None:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and any(item is statement for item in value):
                at = next(n for n, item in enumerate(value) if item is statement)
                getattr(node, name)[at:at] = new
                return
