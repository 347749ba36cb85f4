"""The one definition that can have given a variable its value at a use, or None.

Only what holds on every path counts. No single statement is certain if a variable is set in one branch of an
``if``, in a loop that may not run or in a ``try``. The same holds for ``nonlocal`` and ``global``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..syntax import imported_by

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """The statement that gave a name its value."""

    kind: Literal["assigned", "iterated", "parameter"]
    statement: ast.stmt | None = None
    value: ast.expr | None = None  # the assigned expression; for a loop variable, what is iterated over
    position: tuple[int, ...] = ()  # indices into the unpacked value: `(1,)` for `b` in `a, b = value`


_AMBIGUOUS: Literal["ambiguous"] = "ambiguous"
_Binding = Definition | Literal["ambiguous"] | None
"""The definition that holds, `_AMBIGUOUS` if several may hold, or None for an unbound name."""


def reaching(name: str, scope: Scope, at: ast.stmt) -> Definition | None:
    """Return the definition of ``name`` that the statement ``at`` reads; None unless there is exactly one.

    ``x += …`` is no definition, because it leaves the same object if ``x`` is a tensor.

    Args:
        name: A variable of ``scope``.
        scope: The function or module.
        at: A statement somewhere inside it; what ``at`` itself assigns doesn't count, unless a loop
            comes back to it.
    """
    if _is_declared(name, scope):
        return None
    path = _path(scope, at)
    if path is None:
        return None
    binding: _Binding = None
    for owner, block, index in reversed(path):
        binding = _last_bound(block[:index], name) or _on_entry(owner, block, name)
        if binding is not None:
            break
    if binding is None and not isinstance(scope, ast.Module) and name in _parameters(scope):
        binding = Definition("parameter")
    return binding if isinstance(binding, Definition) else None


def at_the_end(name: str, scope: Scope) -> Definition | None:
    """Return the only definition that ``name`` can have after all of ``scope`` has run, or None."""
    if _is_declared(name, scope) or len(list(_bindings(scope.body, name))) != 1:
        return None
    binding = _last_bound(scope.body, name)
    return binding if isinstance(binding, Definition) else None


def is_local(name: str, scope: Scope) -> bool:
    if isinstance(scope, ast.Module):
        return True
    return name in _parameters(scope) or _may_bind(scope.body, name)


def _parameters(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    args = scope.args
    every = (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg)
    return {argument.arg for argument in every if argument is not None}


def _is_declared(name: str, scope: Scope) -> bool:
    return any(
        isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.walk(scope)
    )


def _path(scope: ast.AST, at: ast.stmt) -> list[tuple[ast.AST, Sequence[ast.stmt], int]] | None:
    """Return the way from the scope down to ``at`` as (owner of the block, block, index in it), or None."""
    for block in _blocks(scope):
        for index, statement in enumerate(block):
            if statement is at:
                return [(scope, block, index)]
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            inner = _path(statement, at)
            if inner is not None:
                return [(scope, block, index), *inner]
    return None


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:  # bodies, `else`, `finally`, handlers and cases
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _last_bound(block: Sequence[ast.stmt], name: str) -> _Binding:
    bindings = (_bound_by(statement, name) for statement in reversed(block))
    return next((binding for binding in bindings if binding is not None), None)


def _bound_by(statement: ast.stmt, name: str) -> _Binding:
    """Return the definition that ``statement`` gives ``name``: `_AMBIGUOUS` if several may hold, or None."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            position = _position(target, name)
            if position is not None:
                return Definition("assigned", statement, statement.value, position)
    elif isinstance(statement, ast.AnnAssign):
        if statement.value is not None and _position(statement.target, name) is not None:
            return Definition("assigned", statement, statement.value)
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        return _AMBIGUOUS if _may_bind(statement.items, name) else _last_bound(statement.body, name)
    return _AMBIGUOUS if _may_bind([statement], name) else None


def _on_entry(owner: ast.AST, block: Sequence[ast.stmt], name: str) -> _Binding:
    """Return what is known of ``name`` when ``block`` begins: a definition, `_AMBIGUOUS`, or None."""
    if isinstance(owner, (ast.For, ast.AsyncFor)) and block is owner.body:
        position = _position(owner.target, name)
        if position is not None:
            return Definition("iterated", owner, owner.iter, position)
    if isinstance(owner, (ast.With, ast.AsyncWith)):
        return _AMBIGUOUS if _may_bind(owner.items, name) else None
    if isinstance(owner, ast.If):
        return _AMBIGUOUS if _may_bind([owner.test], name) else None
    if isinstance(owner, Scope | ast.Try) and block is owner.body:
        return None
    # An earlier pass of a loop, or in handlers, ``else`` and ``match`` an earlier block of the owner, may or
    # may not have run.
    return _AMBIGUOUS if _may_bind([owner], name) else None


def _position(target: ast.expr, name: str) -> tuple[int, ...] | None:
    """Return the indices at which an assignment's target holds the name; None if not certainly."""
    if isinstance(target, ast.Name):
        return () if target.id == name else None
    if isinstance(target, (ast.Tuple, ast.List)):
        for index, element in enumerate(target.elts):
            if isinstance(element, ast.Starred):
                return None  # the star takes an unknown number of elements
            inner = _position(element, name)
            if inner is not None:
                return (index, *inner)
    return None


def _may_bind(nodes: Sequence[ast.AST], name: str) -> bool:
    return next(_bindings(nodes, name), None) is not None


def _bindings(nodes: Sequence[ast.AST], name: str) -> Iterator[ast.AST]:
    """Yield every node below ``nodes`` that may give ``name`` another value; inner scopes are skipped."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            if getattr(node, "name", None) == name:
                yield node
            continue
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if name in imported_by(node):
                yield node
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name == name:
            yield node
        match node:
            case ast.MatchMapping(rest=captured) if captured == name:
                yield node
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            # Of a comprehension's variables, only those of ``:=`` are the enclosing scope's.
            inside = (part.target for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
            yield from (target for target in inside if target.id == name)
            continue
        # ``x += …`` on a tensor leaves the same object, so its target binds nothing (see `reaching`).
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            todo.append(node.value)
            continue
        todo.extend(ast.iter_child_nodes(node))
