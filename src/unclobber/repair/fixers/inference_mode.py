"""Fixer: ``no_grad`` instead of ``inference_mode``, or neither.

A tensor made in inference mode stays outside autograd for ever, and so does a view made there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, flat, is_name, is_place, walk
from ..project import Project
from ._blocks import line_in, under
from ._comments import without_decorator
from ._sites import saved_statements, sites


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield each use of ``inference_mode`` replaced (UC206), or the view taken outside of its mode
    (UC204)."""
    if finding.code == "UC206":
        for path, user in project.sources(_files(finding), "inference_mode"):
            for node in uses(user):
                title = "use `no_grad` instead of `inference_mode`"
                yield Candidate(title, {path: renamed(user, node)})
        return
    for _, (path, source, statement) in saved_statements(finding, project):
        taken = out_of_block(source, statement)
        if taken is not None:
            yield Candidate("take the view outside the mode", {path: taken})
        for function in (n for n in source.all_above(statement) if isinstance(n, cst.FunctionDef)):
            text = without_mode(source, function, statement)
            for inside in recorded(source, function, statement):
                title = f"take the view with gradients recorded in `{function.name.value}`"
                yield Candidate(title, {path: inside})
            if text is not None:
                title = f"take the view outside the mode: `{function.name.value}` in normal mode"
                yield Candidate(title, {path: text})


def uses(source: Source) -> list[cst.Name]:
    """Return the names ``inference_mode`` in ``torch.inference_mode``."""
    attributes = (node for node in source.positions if isinstance(node, cst.Attribute))
    modes = (node for node in attributes if node.attr.value == "inference_mode")
    return [node.attr for node in modes if is_name(node.value, source.torch_name or "")]


def renamed(source: Source, name: cst.Name) -> str:
    """Return the text with ``no_grad`` there; both work as a bare decorator."""
    return source.replaced({name: name.with_changes(value="no_grad")})


_MODES = frozenset({"no_grad", "inference_mode"})


def without_mode(source: Source, function: cst.FunctionDef, statement: cst.CSTNode) -> str | None:
    """Return the text without the function's mode decorator, and all but one statement in blocks of that
    mode.

    Returns:
        None if the function has no such decorator, or if the statement is not directly in its body.
    """
    block = function.body
    at = line_in(source, statement, block.body) if isinstance(block, cst.IndentedBlock) else None
    if at is None or not isinstance(block.body[at], cst.SimpleStatementLine):
        return None
    for index, decorator in enumerate(function.decorators):
        mode = decorator.decorator
        if not _names(mode) & _MODES:
            continue
        item = cst.WithItem(mode if isinstance(mode, cst.Call) else cst.Call(mode))
        documented = function.get_docstring(clean=False) is not None
        body = [*block.body[:documented], *_all_but(item, block.body[documented:], at - documented)]
        new = without_decorator(function, index).with_changes(body=block.with_changes(body=body))
        return source.replaced({function: new})
    return None


def recorded(source: Source, function: cst.FunctionDef, statement: cst.CSTNode) -> Iterator[str]:
    """Yield the text with one statement of a ``no_grad`` function in a block that records gradients."""
    torch = source.torch_name
    modes = set().union(*(_names(decorator.decorator) & _MODES for decorator in function.decorators))
    if torch is None or modes != {"no_grad"}:
        return  # `enable_grad` records nothing there (test_structural_fixers.py)
    yield from source.put_round(statement, lambda line: under(f"{torch}.enable_grad()", line))


def out_of_block(source: Source, statement: cst.CSTNode) -> str | None:
    """Return the text with one statement taken out of the ``with torch.no_grad():`` that it is directly
    in, or None."""
    block = source.above(statement, cst.With)
    if block is None or len(block.items) != 1 or not isinstance(block.body, cst.IndentedBlock):
        return None
    at = line_in(source, statement, block.body.body)
    if at is None or not isinstance(block.body.body[at], cst.SimpleStatementLine):
        return None
    if not _names(block.items[0].item) & _MODES:
        return None
    lines = _all_but(block.items[0], block.body.body, at)
    lines[0] = lines[0].with_changes(leading_lines=(*block.leading_lines, *lines[0].leading_lines))
    return source.replaced({block: cst.FlattenSentinel(lines)})


def _names(mode: cst.CSTNode) -> set[str]:
    return {node.value for node in walk(mode) if isinstance(node, cst.Name)}


def _all_but(item: cst.WithItem, lines: Sequence[cst.CSTNode], at: int) -> list[Any]:
    """Return statements in blocks of a mode, but for the one at an index."""
    return [*_under(item, lines[:at]), lines[at], *_under(item, lines[at + 1 :])]


def _under(item: cst.WithItem, lines: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """Return statements in one ``with`` block, or as they are if none of them computes anything."""
    if all(_is_idle(line) for line in lines):
        return list(lines)
    first: Any = lines[0]
    inside: list[Any] = [first.with_changes(leading_lines=()), *lines[1:]]
    return [cst.With(items=[item], body=cst.IndentedBlock(inside), leading_lines=first.leading_lines)]


def _is_idle(line: cst.CSTNode) -> bool:
    """Return whether a line computes nothing, so that it may run in any mode."""
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    for small in line.body:
        value = small.value if isinstance(small, cst.Return) else None
        parts = flat(value) if value else ()
        if not isinstance(small, (cst.Pass, cst.Import, cst.ImportFrom, cst.Return)) or not all(
            map(is_place, parts)
        ):
            return False
    return True


def _files(finding: Finding) -> list[str]:
    return [site.path for site in sites(finding.made, finding.saved, finding.needed, *finding.writes)]
