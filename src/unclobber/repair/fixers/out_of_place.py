"""Fixer: write the result into a new tensor, ``x += y`` as ``x = x + y``.

Right if no other code relies on the old tensor being changed through another name; the proof finds out
whether any does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, assignment, in_brackets, is_place, walk
from ..project import Project
from ._aliases import held_elsewhere
from ._fresh import is_fresh
from ._inplace import InPlaceCall, in_place, method_call
from ._liveness import read_later
from ._operators import binary
from ._sites import steps_along_gradient, write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statements in their out-of-place forms."""
    for _, (path, source, statement) in write_statements(finding, project):
        if finding.code == "UC201" and steps_along_gradient(statement):
            continue  # a new tensor is no leaf: its `.grad` would stay empty from the next step on
        narrow = finding.saved is not None and finding.saved.dtype in _NARROW
        for text, target, is_shared in rewrites(source, statement, keep_dtype=narrow):
            where = f"`{target}`" if target else "the result"
            title = f"write {where} into a new tensor"
            yield Candidate(title, {path: text}, shared_name=target or "the written one" if is_shared else "")


_NARROW = frozenset({"bfloat16", "float16"})
"""Dtypes that an in-place operation keeps, but its out-of-place form with a float32 tensor does not."""


def rewrites(
    source: Source, statement: cst.CSTNode, *, keep_dtype: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """Yield new texts of the file, the name that is bound to the result (empty if none is), and whether other
    holders of its tensor may exist.

    Args:
        keep_dtype: Whether to also yield the result converted to the old tensor's dtype.
    """
    if isinstance(statement, cst.AugAssign):
        if is_place(statement.target) and read_later(source, statement, statement.target):
            value = binary(statement)
            is_shared = held_elsewhere(source, statement, statement.target)
            for new_value in _of_same_dtype(value, statement.target, keep_dtype):
                new = assignment(statement.target, new_value)
                yield source.with_statement(statement, new), source.code(statement.target), is_shared
        return
    if isinstance(statement, cst.Expr) and (written := in_place(statement.value, source)) is not None:
        yield from _as_statement(source, statement, written, keep_dtype)
        return
    yield from _inside(source, statement)


def _as_statement(
    source: Source, statement: cst.Expr, written: InPlaceCall, keep_dtype: bool
) -> Iterator[tuple[str, str, bool]]:
    """Yield an in-place call that is a statement as an assignment of its out-of-place form."""
    value, target = written
    if not _assignable(target) or not _read_later(source, statement, target):
        return
    is_shared = held_elsewhere(source, statement, target)
    for new_value in _of_same_dtype(value, target, keep_dtype):
        yield source.with_statement(statement, assignment(target, new_value)), source.code(target), is_shared


def _of_same_dtype(
    value: cst.BaseExpression, target: cst.BaseExpression, keep_dtype: bool
) -> Iterator[cst.BaseExpression]:
    """Yield the value, and ``(value).to(target.dtype)``."""
    yield value
    if keep_dtype and is_place(target):
        dtype = cst.Attribute(target.deep_clone(), cst.Name("dtype"))
        yield cst.Call(cst.Attribute(in_brackets(value), cst.Name("to")), [cst.Arg(dtype)])


def _assignable(target: cst.BaseExpression) -> bool:
    if isinstance(target, cst.Tuple):
        return bool(target.elements) and all(is_place(element.value) for element in target.elements)
    return is_place(target)


def _read_later(source: Source, statement: cst.Expr, target: cst.BaseExpression) -> bool:
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    return any(read_later(source, statement, part) for part in parts)


def _inside(source: Source, statement: cst.CSTNode) -> Iterator[tuple[str, str, bool]]:
    """Yield in-place calls inside a statement out of place: each chain, ``inplace=True`` and ``out=`` on
    its own."""
    done: set[int] = set()
    for node in walk(statement):
        if isinstance(node, cst.Call) and id(node) not in done and (written := in_place(node, source)):
            # The inner calls of a chain are written with the outer one.
            inner: cst.BaseExpression = node
            while (method := method_call(inner, source.imported_names)) is not None:
                inner = method[1].value
                done.add(id(inner))
            yield from _with_its_name(source, statement, node, *written)


def _with_its_name(
    source: Source,
    statement: cst.CSTNode,
    call: cst.Call,
    value: cst.BaseExpression,
    written: cst.BaseExpression,
) -> Iterator[tuple[str, str, bool]]:
    """Yield a call inside a statement out of place. If the written name is read later, it is bound to the
    result: ``y = h.relu_()`` gives ``y = h = h.relu()``."""
    if not is_place(written):
        is_shared = not is_fresh(written, source) and not _is_walrus_of_fresh(source, written)
        yield source.replaced({call: _walrus_round(value, written)}), "", is_shared
        return
    name = source.code(written)
    is_shared = held_elsewhere(source, statement, written)
    if not read_later(source, statement, written) and not _is_read_outside_call(
        source, statement, call, name
    ):
        yield source.replaced({call: value}), "", is_shared
    elif isinstance(statement, cst.Assign) and statement.value is call:
        if name in {source.code(target.target) for target in statement.targets}:
            yield source.replaced({call: value}), name, is_shared
        else:
            targets = [*statement.targets, cst.AssignTarget(written.deep_clone())]  # type: ignore[arg-type]
            new = statement.with_changes(targets=targets, value=value)
            yield source.with_statement(statement, new), name, is_shared
    elif isinstance(written, cst.Name) and not _in_own_scope(source, call, statement):
        yield source.replaced({call: _walrus(written, value)}), name, is_shared
    else:
        yield source.replaced({call: value}), name, True


def _walrus(name: cst.Name, value: cst.BaseExpression) -> cst.NamedExpr:
    return cst.NamedExpr(name.deep_clone(), value, lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _walrus_round(value: cst.BaseExpression, written: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``(g := x.exp().mul(2))`` for ``(g := x.exp()).mul_(2)``."""
    if not isinstance(written, cst.NamedExpr) or not isinstance(written.target, cst.Name):
        return value
    plain = in_brackets(written.value)
    changed: Any = value.deep_replace(written, plain)
    return _walrus(written.target, changed)


def _is_walrus_of_fresh(source: Source, written: cst.BaseExpression) -> bool:
    return isinstance(written, cst.NamedExpr) and is_fresh(written.value, source)


def _is_read_outside_call(source: Source, statement: cst.CSTNode, call: cst.Call, name: str) -> bool:
    """Return whether the statement reads a place outside of the call, too: ``h.relu_() + h``."""
    own = {id(node) for node in walk(call)}
    return any(
        id(node) not in own
        and isinstance(node, (cst.Name, cst.Attribute))
        and source.code(node) == name
        and not isinstance(source.parents[node], cst.AssignTarget)
        for node in walk(statement)
    )


def _in_own_scope(source: Source, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Return whether a lambda or comprehension of the statement holds a node, or a class body the
    statement."""
    for above in source.all_above(node):
        if isinstance(above, (cst.Lambda, cst.BaseComp)):
            return True
        if above is statement:
            return False
    return False
