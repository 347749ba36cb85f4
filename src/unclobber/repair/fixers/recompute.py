"""Fixer: compute the forward again, after the step that changed its weights, or in each turn of the loop.

This changes the program: the loss is then that of the new weights, which is mostly what is meant. It
is offered, never applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, late, names_in
from ..project import Project
from ._blocks import binds, body_of, forward_slice, in_order, line_in, shortened
from ._sites import LocatedStatement, callers, write_statements

_Edit = Callable[[Source, cst.CSTNode, cst.CSTNode], str | None]


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the statements that computed the overwritten or freed tensors once more, where they would be
    new."""
    forwards = list(callers(finding.saved, project))
    if finding.code == "UC301":
        for path, source, backward in callers(finding.needed, project):
            made = [(path, source, line) for line in _makers(source, backward)]
            for forward, text in _first(path, forwards + made, moved_into_loop, backward):
                title = f"move `{forward}` into the loop"
                note = "each turn then computes its own loss, with the weights as they are by then"
                yield Candidate(title, {path: text}, offered=True, note=note)
    if not any(write.optimizer is not None for write in finding.writes):
        return
    for write, _ in write_statements(finding, project):
        for path, source, step in callers(write, project):
            for forward, text in _first(path, forwards, repeated_after, step):
                title = f"compute `{forward}` again after `{shortened(source.code(step))}`"
                note = "the loss is then computed with the updated weights"
                yield Candidate(title, {path: text}, offered=True, note=note)


def _first(
    path: str, forwards: list[LocatedStatement], edited: _Edit, other: cst.CSTNode
) -> Iterator[tuple[str, str]]:
    """Yield the code of the first forward in a file that can be edited so, with the file's new text."""
    for at, source, forward in forwards:
        text = edited(source, forward, other) if at == path else None
        if text is not None:
            yield shortened(source.code(forward)), text
            return


def _makers(source: Source, backward: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the last assignments before the loop of the names that a backward's statement reads."""
    loop = source.loop_round(backward)
    body = body_of(source, loop) if loop is not None else None
    stop = line_in(source, loop, body) if loop is not None and body is not None else None
    if body is None or stop is None:
        return
    wanted = names_in(backward)
    for line in reversed(body[:stop]):
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and binds(line) & wanted:
            yield line.body[0]


def repeated_after(source: Source, forward: cst.CSTNode, step: cst.CSTNode) -> str | None:
    """Return the text with the forward's statements repeated after the step's; None if they share no
    block."""
    line = source.own_line(step)
    block = in_order(source, forward, line)
    again = None if block is None else forward_slice(*block)
    if line is None or not again:
        return None
    copies = [copy.deep_clone().with_changes(leading_lines=()) for copy in again]
    return source.replaced({line: cst.FlattenSentinel([line, *copies])})


def moved_into_loop(source: Source, forward: cst.CSTNode, backward: cst.CSTNode) -> str | None:
    """Return the text with the forward's statements at the start of the loop that the backward is in, or
    None."""
    loop = source.loop_round(backward)
    block = in_order(source, forward, loop)
    lines = None if block is None else forward_slice(*block)
    if loop is None or not lines or not isinstance(loop.body, cst.IndentedBlock):
        return None
    changes: dict[cst.CSTNode, object] = {line: cst.RemoveFromParent() for line in lines}
    changes[loop.body] = late(lambda block: block.with_changes(body=[*lines, *block.body]))
    return source.replaced(changes)
