"""Fixer: write a list's or dict's element into a new tensor, ``outs[i] += x`` as ``outs[i] = outs[i] + x``.

The edit assigns the container's entry, so a tensor in the container's place gains nothing: there the
assignment is a write, too. The text doesn't show which of the two it is; the proof does.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, assignment, is_place, single_target, walk
from ..project import Project
from ._containers import element_held_elsewhere
from ._inplace import in_place
from ._operators import binary
from ._sites import write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statements with a new tensor in the element, or a copy before a part of it is
    written."""
    if finding.code == "UC301":
        return
    for _, (path, source, statement) in write_statements(finding, project):
        for text, element, title in rewrites(source, statement):
            code = source.code(element)
            shared_name = code if element_held_elsewhere(source, statement, element) else ""
            yield Candidate(title.format(code), {path: text}, shared_name=shared_name)


def rewrites(source: Source, statement: cst.CSTNode) -> Iterator[tuple[str, cst.Subscript, str]]:
    """Yield new texts with the element that gets a new tensor, and a title to be filled with its code."""
    target, value = _written(source, statement)
    if target is None:
        return
    if isinstance(target, cst.Subscript) and _is_element(target) and value is not None:
        new = assignment(target, value)
        yield source.with_statement(statement, new), target, "put a new tensor in the place of `{}`"
    for part in _elements_below(target):
        code = source.code(part)
        text = source.inserted(statement, before=[f"{code} = {code}.clone()"])
        if text is not None:
            yield text, part, "write to a copy of `{}`"


def _written(
    source: Source, statement: cst.CSTNode
) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    """Return the expression that a statement writes to, and the value written if one expression gives it."""
    if isinstance(statement, cst.AugAssign):
        return statement.target, binary(statement)
    if (target := single_target(statement)) is not None:
        return target, None
    written = in_place(statement.value, source) if isinstance(statement, cst.Expr) else None
    return (None, None) if written is None else (written.target, written.value)


def _elements_below(target: cst.BaseExpression) -> Iterator[cst.Subscript]:
    """Yield the elements of containers that ``target`` is a part of: ``d["h"]`` of ``d["h"][0].data[1]``."""
    below = target
    while isinstance(below, (cst.Subscript, cst.Attribute)):
        below = below.value
        if isinstance(below, cst.Subscript) and _is_element(below):
            yield below


def _is_element(node: cst.BaseExpression) -> bool:
    """Return whether ``node`` is ``place[index]``, perhaps nested, and reading it twice has no effect of
    its own."""
    if not isinstance(node, cst.Subscript):
        return False
    inner = node.value
    if not (is_place(inner) or _is_element(inner)):
        return False
    return all(isinstance(part.slice, cst.Index) and _is_plain(part.slice.value) for part in node.slice)


_EFFECTS = (
    cst.Call, cst.Await, cst.Yield, cst.NamedExpr, cst.Ellipsis, cst.BaseComp, cst.Lambda, cst.Comparison
)  # fmt: skip


def _is_plain(index: cst.BaseExpression) -> bool:
    # only a tensor has a mask as an index, and a comparison gives one
    return not any(isinstance(node, _EFFECTS) for node in walk(index))
