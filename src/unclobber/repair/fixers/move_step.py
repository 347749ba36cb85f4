"""Fixer: move an optimizer's step behind the backward that still needs its weights.

This changes the program: that backward then also adds to the gradients which the step uses. It is
offered, never applied.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source
from ..project import Project
from ._blocks import calls_method, line_in
from ._sites import callers, write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the step's line after the backward's, if both are in one block."""
    if not any(write.optimizer is not None for write in finding.writes):
        return
    for _, (path, source, step) in write_statements(finding, project):
        for other, _, backward in callers(finding.needed, project):
            text = moved(source, step, backward) if other == path else None
            if text is not None:
                name = source.code(step).strip()
                note = f"`{name}` then uses what this backward adds to its gradients, too"
                title = f"move `{name}` behind `{source.code(backward).strip()}`"
                yield Candidate(title, {path: text}, offered=True, note=note)
                return


def moved(source: Source, step: ast.AST, backward: ast.AST) -> str | None:
    """Return the text with ``step``'s line directly after ``backward``'s; None if they share no block."""
    line = source.own_line(step)
    if line is None or not calls_method(step, {"step"}):
        return None
    block = source.block(line.statements[0])
    end = line_in(source, backward, block)
    if end is None or end <= block.index(line.statements[0]):
        return None
    target = source.line(block[end])
    lines = source.text[line.start : line.end]
    return source.edited(source.removed(line), source.behind(target, lines))
