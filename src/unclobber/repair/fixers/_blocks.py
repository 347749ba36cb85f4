"""Statements of one block: moving, repeating, and dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from .._syntax import New, Source, calls, late, names_in, walk

Line = cst.SimpleStatementLine | cst.BaseCompoundStatement


def body_of(source: Source, node: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
    """Return the block of a line or compound statement; None for a body on its header's line."""
    parent = source.parents.get(node)
    return parent.body if isinstance(parent, (cst.IndentedBlock, cst.Module)) else None


def line_in(source: Source, node: cst.CSTNode, body: Sequence[cst.CSTNode]) -> int | None:
    """Return the index of the statement in ``body`` that holds ``node``, or None."""
    holders = [node, *source.all_above(node)]
    return next((i for i, line in enumerate(body) if any(line is holder for holder in holders)), None)


def in_order(
    source: Source, first: cst.CSTNode, second: cst.CSTNode | None
) -> tuple[Sequence[cst.CSTNode], int, int] | None:
    """Return the block of ``second`` with the indices of the statements that hold both nodes.

    Returns:
        None unless ``first`` is in that block and stands before ``second``.
    """
    body = None if second is None else body_of(source, second)
    if second is None or body is None:
        return None
    start, stop = line_in(source, first, body), line_in(source, second, body)
    return None if start is None or stop is None or start >= stop else (body, start, stop)


def assigned_to(source: Source, place: str) -> Iterator[cst.BaseExpression]:
    """Yield every value that the file assigns to a place, which is given as code."""
    assigns = (small for small in source.smalls if isinstance(small, cst.Assign))
    for assign in assigns:
        if any(source.code(target.target) == place for target in assign.targets):
            yield assign.value


def shortened(code: str, most: int = 50) -> str:
    """Return code on one line, cut to `most` characters."""
    code = " ".join(code.split())
    return code if len(code) <= most else f"{code[: most - 3]}..."


def under(context: str, line: Any, leading_lines: Sequence[cst.EmptyLine] = ()) -> cst.With:
    """Return a line in a ``with`` block of a context, which is given as code."""
    items = [cst.WithItem(cst.parse_expression(context))]
    return cst.With(items=items, body=cst.IndentedBlock([line]), leading_lines=leading_lines)


def starting_with(function: cst.FunctionDef, line: cst.CSTNode) -> New:
    """Return the change of a function's block that puts a line first, after the docstring."""

    def put(block: cst.IndentedBlock) -> cst.IndentedBlock:
        documented = function.get_docstring(clean=False) is not None
        return block.with_changes(body=[*block.body[:documented], line, *block.body[documented:]])

    return late(put)


def reads(node: cst.CSTNode) -> set[str]:
    """Return the names that a statement may read: all but plain targets of its assignment."""
    names: set[str] = set()
    for small in getattr(node, "body", [node]) if isinstance(node, cst.SimpleStatementLine) else [node]:
        if isinstance(small, cst.Assign):
            names |= names_in(small.value)
            for target in small.targets:
                # `x[i] = v` reads x; a plain target is only written.
                if not isinstance(target.target, (cst.Name, cst.Tuple)):
                    names |= names_in(target.target)
        else:
            names |= names_in(small)
    return names


def binds(node: cst.CSTNode) -> set[str]:
    """Return the names that a statement assigns."""
    names: set[str] = set()
    for inner in walk(node):
        if isinstance(inner, (cst.AssignTarget, cst.AugAssign)):
            names |= names_in(inner.target)
    return names


def calls_method(node: cst.CSTNode, names: set[str]) -> bool:
    """Return whether a method or function of one of these names is called anywhere in ``node``."""
    return next(calls(node, names), None) is not None


def forward_slice(body: Sequence[cst.CSTNode], first: int, stop: int) -> list[cst.SimpleStatementLine] | None:
    """Return the assignment at ``first`` and those before ``stop`` that depend on it.

    Returns:
        None if one of them does more than compute: a backward, a step, or a compound statement.
    """
    start = body[first]
    if not isinstance(start, cst.SimpleStatementLine) or not binds(start):
        return None
    tainted = binds(start)
    lines = [start]
    for line in body[first + 1 : stop]:
        if not reads(line) & tainted:
            continue
        # A backward or step in between is no part of the forward.
        if calls_method(line, {"backward", "step", "zero_grad", "grad"}):
            continue
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        if binds(line):
            tainted |= binds(line)
            lines.append(line)
    return _used(lines, body[stop:])


def _used(
    lines: list[cst.SimpleStatementLine], later: Sequence[cst.CSTNode]
) -> list[cst.SimpleStatementLine]:
    """Return the assignments whose values are read later, directly or through another one of them."""
    wanted = set().union(*(reads(line) for line in later))
    kept: list[cst.SimpleStatementLine] = []
    for line in reversed(lines):
        if binds(line) & wanted:
            wanted |= reads(line)
            kept.insert(0, line)
    return kept
