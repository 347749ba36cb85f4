"""Fixer: give a tensor memory of its own before it is written, by copying an expanded view, a tensor over an
array that is written to, or the value that is read while memory that overlaps it is written.

The copy is made where the tensor is made, so all its holders see a write by torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from ...syntax import torch_table
from .._candidate import Candidate
from .._syntax import arguments_of, calls, is_place, walk
from ..project import Project
from ._fresh import is_fresh
from ._sites import callers, saved_statements, write_statements
from .clone_saved import cloned

_OF_ARRAYS = ("from_numpy", "as_tensor", "frombuffer")


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield copies of the tensor where it is made, then copies of the writing statement's operands."""
    here = list(callers(project, finding.saved)) if finding.code == "UC102" else []
    # The loader that fills its arrays again may be in another file.
    others = dict(project.sources((), "numpy")) if here else {}
    for path, source in ({path: source for path, source, _ in here} | others).items():
        for call in calls(source.tree, _OF_ARRAYS):
            title = f"copy `{source.code(call)}`, so that a write to the array can't reach it"
            text = source.replaced({call: cloned(source, call)})
            guess = not any(call in walk(statement) for _, _, statement in here)
            yield Candidate(title, {path: text}, guess=guess)
    for _, (path, source, statement) in saved_statements(finding, project):
        for call in calls(statement, torch_table().expands):
            title = f"copy `{source.code(call)}`, so that each element has a place of its own"
            yield Candidate(title, {path: source.replaced({call: cloned(source, call)})})
    for _, (path, source, statement) in write_statements(finding, project):
        reads = [read for read in operands(statement) if not is_fresh(read, source)]
        for read in reads if finding.code == "UC207" else ():
            text = source.replaced({read: cloned(source, read)})
            yield Candidate(f"read a copy of `{source.code(read)}`", {path: text}, guess=len(reads) > 1)


def operands(statement: ast.AST) -> list[ast.expr]:
    """Return the operands of a writing statement: the right side, or the arguments of an in-place call."""
    values = [statement.value] if isinstance(statement, ast.AugAssign | ast.Assign) else []
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        values = arguments_of(statement.value)
    return [value for value in values if is_place(value) or isinstance(value, ast.Subscript | ast.Call)]
