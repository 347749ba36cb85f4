"""Write to a leaf without recording it: put the statement under ``torch.no_grad()``.

Right for initialisation and for hand-made optimizer steps, where the write is not part of what is
differentiated. Where it is, ``out_of_place`` and ``clone_target`` keep it in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._project import Project
from .._proposal import NOT_RECORDED, Proposal
from .._syntax import Source
from .._syntax import late as after
from ._sites import steps_along_gradient, write_spots
from .clone_target import targets

_NOTE = "takes the write for a change of the value itself, which no gradient passes through"


def propose(finding: Finding, project: Project) -> Iterator[Proposal]:
    """The writing statement, or the whole function that it is in, under ``no_grad``."""
    if finding.code not in ("UC201", "UC202", "UC203"):
        return
    for _, (path, source, statement) in write_spots(finding, project):
        torch = source.torch_name()
        if torch is None:
            continue
        late = not _is_update(source, statement)
        for text in wrapped(source, statement, torch):
            title = "write under `torch.no_grad()`"
            yield Proposal("no-grad", title, {path: text}, reading=NOT_RECORDED, note=_NOTE, late=late)
        function = source.above(statement, cst.FunctionDef)
        if function is not None and not _returns(function):
            title = f"run `{function.name.value}` under `torch.no_grad()`"
            yield Proposal(
                "no-grad",
                title,
                {path: decorated(source, function, torch)},
                reading=NOT_RECORDED,
                note=_NOTE,
                late=late,
            )


def _is_update(source: Source, statement: cst.BaseSmallStatement) -> bool:
    """Whether a write looks meant for the parameter itself: ``layer.weight``, or a step along ``.grad``.

    A bare name is as likely somebody else's tensor that should be left alone.
    """
    named = any(isinstance(place, cst.Attribute) for place in targets(source, statement))
    return named or steps_along_gradient(statement)


def wrapped(source: Source, statement: cst.BaseSmallStatement, torch: str) -> Iterator[str]:
    """The text with the statement in a ``with`` block, in two ways where it shares its line."""
    yield from source.put_round(
        statement,
        lambda line: cst.With(
            items=[cst.WithItem(cst.parse_expression(f"{torch}.no_grad()"))], body=cst.IndentedBlock([line])
        ),
    )


def decorated(source: Source, function: cst.FunctionDef, torch: str) -> str:
    """The text with ``@torch.no_grad()`` directly above the function."""
    decorator = cst.Decorator(cst.parse_expression(f"{torch}.no_grad()"))
    return source.replaced(
        {function: after(lambda new: new.with_changes(decorators=[*new.decorators, decorator]))}
    )


def _returns(function: cst.FunctionDef) -> bool:
    """Whether a function hands something back, which would then be cut off the graph."""
    finder = _Returns()
    function.body.visit(finder)
    return finder.found


class _Returns(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found = False

    def visit_Return(self, node: cst.Return) -> None:  # noqa: N802  (the name that LibCST calls)
        self.found |= node.value is not None

    def visit_Yield(self, node: cst.Yield) -> None:  # noqa: N802
        self.found = True

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:  # noqa: N802
        return False
