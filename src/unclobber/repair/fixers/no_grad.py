"""Fixer: write to a leaf without recording it, by putting the statement under ``torch.no_grad()``.

Right for initialisation and for hand-made optimizer steps, because their write is no part of the
differentiated function. If it is part of it, ``out_of_place`` and ``clone_target`` keep it in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from ...model import Finding
from .._candidate import NOT_RECORDED, Candidate
from .._syntax import Source, called_name
from .._syntax import late as after
from ..project import Project
from ._blocks import under
from ._inplace import is_inplace_name
from ._sites import steps_along_gradient, write_statements
from .clone_target import targets

_NOTE = "this takes the write for a change of the value itself, which no gradient passes through"


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statement, or the whole function if it does nothing but write, under ``no_grad``."""
    for _, (path, source, statement) in write_statements(finding, project):
        torch = source.torch_name
        if torch is None:
            continue
        late = not _is_update(source, statement)
        for text in source.put_round(statement, partial(under, f"{torch}.no_grad()")):
            title = "write under `torch.no_grad()`"
            yield Candidate(title, {path: text}, interpretation=NOT_RECORDED, note=_NOTE, late=late)
        function = source.above(statement, cst.FunctionDef)
        if function is not None and only_writes(function):
            title = f"run `{function.name.value}` under `torch.no_grad()`"
            yield Candidate(
                title,
                {path: decorated(source, function, torch)},
                interpretation=NOT_RECORDED,
                note=_NOTE,
                late=late,
            )


def _is_update(source: Source, statement: cst.CSTNode) -> bool:
    """Return whether a write looks meant for the parameter itself: ``layer.weight``, or a step along
    ``.grad``.

    A bare name is as likely the caller's tensor, which should stay unchanged.
    """
    named = any(isinstance(place, cst.Attribute) for place in targets(source, statement))
    return named or steps_along_gradient(statement)


def decorated(source: Source, function: cst.FunctionDef, torch: str) -> str:
    """Return the text with ``@torch.no_grad()`` directly above the function."""
    decorator = cst.Decorator(cst.parse_expression(f"{torch}.no_grad()"))
    return source.replaced(
        {function: after(lambda new: new.with_changes(decorators=[*new.decorators, decorator]))}
    )


def only_writes(function: cst.FunctionDef) -> bool:
    """Return whether a function only writes in place and computes what it needs for that.

    Anything else, such as an attribute that it sets, would be cut off the graph together with the writes.
    """
    return isinstance(function.body, cst.IndentedBlock) and all(
        _only_writes(line) for line in function.body.body
    )


_ROUND = (cst.For, cst.While, cst.If, cst.Else, cst.With)


def _only_writes(line: cst.CSTNode) -> bool:
    """Return whether a statement only writes in place, binds plain names or controls the flow."""
    if isinstance(line, _ROUND):
        otherwise = getattr(line, "orelse", None)
        lines = getattr(line.body, "body", ())
        return all(_only_writes(inner) for inner in (*lines, *([] if otherwise is None else [otherwise])))
    if isinstance(line, cst.SimpleStatementLine):
        return all(_only_writes(small) for small in line.body)
    if isinstance(line, cst.Assign):
        return all(isinstance(target.target, (cst.Name, cst.Subscript, cst.Tuple)) for target in line.targets)
    if isinstance(line, cst.AugAssign):
        return True
    if isinstance(line, cst.Expr):
        called = called_name(line.value.func) if isinstance(line.value, cst.Call) else ""
        return isinstance(line.value, cst.BaseString) or is_inplace_name(called)
    return isinstance(line, (cst.Pass, cst.Continue, cst.Break)) or (
        isinstance(line, cst.Return) and line.value is None
    )
