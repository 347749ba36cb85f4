"""Statements of one block: moving, repeating, and dependencies."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Container, Iterator, Sequence

from .._syntax import Source, calls, flat, is_place, is_small, method_call, names_in, targets_of, walk


def line_in(source: Source, node: ast.AST, body: Sequence[ast.stmt]) -> int | None:
    return next((body.index(above) for above in (node, *source.all_above(node)) if above in body), None)


def lines_before(source: Source, loop: ast.AST, node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the lines above a node, in its block or in one round it, that run before it in a loop's turn."""
    inside = itertools.takewhile(lambda at: at is not loop, source.statements_round(node))
    return (line for at in inside for line in source.block(at)[: source.block(at).index(at)])


def assigned_to(source: Source, place: str) -> Iterator[ast.expr]:
    """Yield the values that a place gets, also ``xs[-1]`` by ``xs.append(value)``."""
    for small in source.smalls:
        match small:
            case ast.Assign(targets, value) if place in map(source.code, targets):
                yield value
            case ast.Expr(ast.Call(ast.Attribute(xs, "append"), new)) if place == f"{source.code(xs)}[-1]":
                yield from new


def fills(source: Source, statement: ast.AST, place: ast.expr) -> bool:
    """Return whether a loop round a statement takes a tensor only part by part, as a recursion fills its
    buffer: a copy of the whole in each turn, which backward keeps, takes the square of its memory."""
    code, loop = source.code(place), source.loop_round(statement)
    same = [node for node in walk(loop) if is_place(node) and source.code(node) == code] if loop else []
    taken = [part for node in same if getattr(part := source.parents[node], "attr", "") not in _OF_SHAPE]
    return bool(taken) and all(isinstance(part, ast.Subscript) for part in taken)


_OF_SHAPE = frozenset({"size", "shape", "dim", "ndim", "numel", "device", "dtype"})  # `range(x.size(1))`


def shortened(code: str, most: int = 50) -> str:
    code = " ".join(code.split())
    return code if len(code) <= most else f"{code[: most - 3]}..."


def reads(node: ast.AST) -> set[str]:  # all but plain targets of its assignment
    if not isinstance(node, ast.Assign):
        return names_in(node)
    # `x[i] = v` reads x; a plain target is only written.
    parts = [target for target in node.targets if not isinstance(target, ast.Name | ast.Tuple)]
    return set().union(*map(names_in, [node.value, *parts]))


def bound_by(source: Source, *statements: ast.AST) -> set[str]:  # as code, by themselves
    targets = (target for statement in statements for target in targets_of(statement))
    return {source.code(part) for target in targets for part in flat(target)}


def binds(node: ast.AST) -> set[str]:
    return set().union(*(names_in(target) for inner in walk(node) for target in targets_of(inner)))


_CONSTANTS = {"sample", "multinomial", "item", "detach", "argmax", "tolist", "numpy"}
"""Methods whose results no gradient flows through; a sample drawn again would be another one."""


def forward_slice(
    source: Source, first: ast.AST, stop: ast.stmt, wanted: Container[str] = ()
) -> list[ast.stmt]:
    """Return the assignment that holds ``first``, and those above ``stop`` in its block that depend on it.

    Args:
        wanted: Names that are needed later; if none of them is bound here, all that later statements read.

    Returns:
        Empty if there are none, or if one does more than compute: a backward, a step, a compound statement,
        or the making of weights.
    """
    body = source.block(stop)
    at, end = line_in(source, first, body), body.index(stop)
    if at is None or at >= end or not is_small(body[at]) or not binds(body[at]):
        return []
    lines, tainted = [body[at]], binds(body[at])
    for line in body[at + 1 : end]:
        if not reads(line) & tainted or method_call(getattr(line, "value", None), *_CONSTANTS) is not None:
            continue
        # A backward or step in between is no part of the forward.
        if any(calls(line, {"backward", "step", "zero_grad", "grad"})):
            continue
        if not is_small(line):
            return []
        if binds(line):
            tainted |= binds(line)
            lines.append(line)
    used = _used(lines, {name for name in tainted if name in wanted} or set().union(*map(reads, body[end:])))
    return [] if _makes_weights(source, used) else used


def _makes_weights(source: Source, statements: list[ast.stmt]) -> bool:
    """Return whether some statements make a module, a parameter or an optimizer: what is trained would be
    other weights each time that they run."""
    made = bound_by(source, *statements)
    scope = source.function(statements[0]) if statements else None
    called = [node for node in walk(scope or source.tree) if isinstance(node, ast.Call)]
    owners = [owner for call in called for owner in (call.func, method_call(call, *_OF_WEIGHTS)) if owner]
    own = any(call for line in statements for call in calls(line, {"Parameter"}))
    return own or any(source.code(owner) in made for owner in owners)


_OF_WEIGHTS = ("parameters", "named_parameters", "step", "zero_grad")


def _used(lines: list[ast.stmt], wanted: set[str]) -> list[ast.stmt]:
    """Return the assignments whose values are wanted, directly or through another one of them."""
    kept: list[ast.stmt] = []
    for line in reversed(lines):
        if binds(line) & wanted:
            wanted |= reads(line)
            kept.insert(0, line)
    return kept
