"""Write the result into a new tensor: ``x += y`` becomes ``x = x + y``.

Right wherever nobody relies on the old tensor being changed through another name; whether somebody
does is what the proof finds out.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._project import Project
from .._proposal import Proposal
from .._syntax import Source, assignment, is_place, walk
from . import _inplace
from ._aliases import held_elsewhere
from ._liveness import read_later
from ._operators import binary
from ._sites import steps_along_gradient, write_spots


def propose(finding: Finding, project: Project) -> Iterator[Proposal]:
    """The writing statements in their out-of-place forms."""
    for _, (path, source, statement) in write_spots(finding, project):
        if finding.code == "UC201" and steps_along_gradient(statement):
            continue  # a new tensor is no leaf: its `.grad` would stay empty from the next step on
        for text, target, hides in rewrites(source, statement):
            where = f"`{target}`" if target else "the result"
            title = f"write {where} into a new tensor"
            yield Proposal("out-of-place", title, {path: text}, hides=target if hides else "")


def rewrites(source: Source, statement: cst.BaseSmallStatement) -> Iterator[tuple[str, str, bool]]:
    """New texts of the file with the name that is bound anew, empty where none is, and whether others may
    hold its tensor."""
    if isinstance(statement, cst.AugAssign):
        if is_place(statement.target) and read_later(source, statement, statement.target):
            value = binary(statement)
            if value is not None:
                yield (
                    source.with_statement(statement, assignment(statement.target, value)),
                    source.code(statement.target),
                    held_elsewhere(source, statement, statement.target),
                )
        return
    imported = source.imported_names()
    torch = source.torch_name()
    if isinstance(statement, cst.Expr):
        yield from _as_statement(source, statement, imported, torch)
        return
    yield from _inside(source, statement, imported, torch)


def _as_statement(
    source: Source, statement: cst.Expr, imported: frozenset[str], torch: str | None
) -> Iterator[tuple[str, str, bool]]:
    call = statement.value
    if not isinstance(call, cst.Call):
        return
    target: cst.BaseExpression | None = None
    value = _inplace.out_of_place(call, imported, torch)
    if value is not None:
        by_function = _inplace.function_call(call, imported) is not None
        target = call.args[0].value if by_function else _inplace.innermost_receiver(call, imported)
    elif (plain := _inplace.without_inplace(call)) is not None and call.args:
        value, target = plain, call.args[0].value
    elif (found := _inplace.without_out(call)) is not None:
        value, target = found
    if (
        value is None
        or target is None
        or not _assignable(target)
        or not _read_later(source, statement, target)
    ):
        return
    hides = held_elsewhere(source, statement, target)
    yield source.with_statement(statement, assignment(target, value)), source.code(target), hides


def _assignable(target: cst.BaseExpression) -> bool:
    if isinstance(target, cst.Tuple):
        return bool(target.elements) and all(is_place(element.value) for element in target.elements)
    return is_place(target)


def _read_later(source: Source, statement: cst.Expr, target: cst.BaseExpression) -> bool:
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    return any(read_later(source, statement, part) for part in parts)


def _inside(
    source: Source, statement: cst.BaseSmallStatement, imported: frozenset[str], torch: str | None
) -> Iterator[tuple[str, str, bool]]:
    """In-place calls inside a statement: each chain, ``inplace=True`` and ``out=`` on its own."""
    done: set[int] = set()
    for node in walk(statement):
        if id(node) in done or not isinstance(node, cst.Call):
            continue
        value = _inplace.out_of_place(node, imported, torch)
        if value is not None:
            inner: cst.BaseExpression = node
            while (found := _inplace.method_call(inner, imported)) is not None:
                done.add(id(inner))
                inner = found[1].value
        else:
            value = _inplace.without_inplace(node)
        if value is None and (output := _inplace.without_out(node)) is not None:
            value = output[0]
        if value is not None:
            yield source.replaced({node: value}), "", False
