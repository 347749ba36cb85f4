"""Fixer: write where torch can see it, ``x.data[i] = v`` as a write under ``no_grad``.

On its own this only turns a silently wrong gradient into an error; with a copy at the right place,
which another fixer adds, it turns into a right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, walk
from ..project import Project
from ._blocks import under
from ._sites import write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statements without ``.data``, under ``no_grad``."""
    for _, (path, source, statement) in write_statements(finding, project):
        torch = source.torch_name
        text = rewritten(source, statement, torch) if torch is not None else None
        if text is not None:
            yield Candidate("write under `no_grad` instead of through `.data`", {path: text})


def rewritten(source: Source, statement: cst.CSTNode, torch: str) -> str | None:
    """Return the text with the statement in a ``no_grad`` block and without ``.data``.

    Returns:
        None if there is no ``.data``, if it is itself what is assigned, or if the statement shares its line.
    """
    line = source.own_line(statement)
    uses = [n for n in walk(statement) if isinstance(n, cst.Attribute) and n.attr.value == "data"]
    if line is None or not uses:
        return None
    if any(isinstance(source.parents.get(node), cst.AssignTarget) for node in uses):
        return None
    # The comments above the line go above the `with`.
    bare: Any = line.with_changes(leading_lines=())
    for node in uses:
        bare = bare.deep_replace(node, node.value)
    return source.replaced({line: under(f"{torch}.no_grad()", bare, line.leading_lines)})
