"""Fixer: compute the forward again, after the step that changed its weights, or in each turn of the loop.

The loss is then that of the new weights, which is mostly what is meant: it is offered, never applied.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterator
from functools import partial

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, is_small, names_in
from .._text import Splice
from ..project import Project
from ._blocks import binds, forward_slice, shortened
from ._sites import LocatedStatement, callers, write_statements

_Edit = Callable[[Source, ast.AST, ast.AST], str | None]


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the statements that computed the overwritten or freed tensors once more, where they are new."""
    forwards = list(callers(project, finding.saved))
    wanted = set().union(*(names_in(statement) for _, _, statement in callers(project, finding.needed)))
    if finding.code == "UC301":
        for path, source, backward in callers(project, finding.needed):
            made = [(path, source, line) for line in _makers(source, backward)]
            for forward, text in _first(path, forwards + made, moved_into_loop, backward):
                title = f"move `{forward}` into the loop"
                note = "each turn then computes its own loss, with the weights as they are by then"
                yield Candidate(title, {path: text}, offered=True, note=note)
    if not any(write.optimizer is not None for write in finding.writes):
        return
    for write, _ in write_statements(finding, project):
        for path, source, step in callers(project, write):
            for forward, text in _first(path, forwards, partial(repeated_after, wanted=wanted), step):
                title = f"compute `{forward}` again after `{shortened(source.code(step))}`"
                note = "the loss is then computed with the updated weights"
                yield Candidate(title, {path: text}, offered=True, note=note)


def _first(
    path: str, forwards: list[LocatedStatement], edited: _Edit, other: ast.AST
) -> Iterator[tuple[str, str]]:
    """Yield the code of the first forward in a file that can be edited so, with the file's new text."""
    for at, source, forward in forwards:
        if at == path and (text := edited(source, forward, other)):
            yield shortened(source.code(forward)), text
            return


def _makers(source: Source, backward: ast.AST) -> Iterator[ast.AST]:
    """Yield the last assignments before the loop of the names that a backward's statement reads."""
    if (loop := source.loop_round(backward)) is not None:
        block, wanted = source.block(loop), names_in(backward)
        above = reversed(block[: block.index(loop)])
        yield from (line for line in above if is_small(line) and binds(line) & wanted)


def repeated_after(source: Source, forward: ast.AST, step: ast.AST, wanted: Container[str]) -> str | None:
    """Return the text with the forward's statements once more below a step, or None."""
    line = source.own_line(step)
    again = [] if line is None else forward_slice(source, forward, line.statements[0], wanted)
    if line is None or not again:
        return None
    return source.edited(source.behind(line, "".join(_moved(source, again, line.indent))))


def moved_into_loop(source: Source, forward: ast.AST, backward: ast.AST) -> str | None:
    """Return the text with the forward's statements, which may stand before a loop further out, at the start
    of the backward's loop, or None."""
    outer = loop = source.loop_round(backward)
    lines: list[ast.stmt] = []
    while outer is not None and not (lines := forward_slice(source, forward, outer)):
        outer = source.loop_round(outer)
    if loop is None or not lines or (first := source.line(loop.body[0])).in_header:
        return None
    moved = _moved(source, lines, first.indent, with_comments=True)
    gone = [source.removed(source.line(line)) for line in lines]
    return source.edited(Splice(first.above, first.above, "".join(moved)), *gone)


def _moved(
    source: Source, statements: list[ast.stmt], indent: str, *, with_comments: bool = False
) -> Iterator[str]:
    lines = {line.start: line for line in map(source.line, statements)}  # some share a line
    for line in lines.values():
        yield source.moved(line.above if with_comments else line.start, line.end, indent)
