"""Fixer: let a hook return the new gradient, or the module's new result, that it now writes in place.

A hook that returns None passes on the tensor that it got, with its own writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Function, Source, calls, is_constant, names_in, parameters_of, walk
from ..project import Project
from ._inplace import written_by
from ._sites import write_statements

_OF_RESULTS = ("register_forward_hook", "register_module_forward_hook")


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the hook with its write out of place, and a ``return`` of the result."""
    for _, (path, source, statement) in write_statements(finding, project):
        hook, written = source.function(statement), written_by(statement, source)
        if hook is None or written is None or any(isinstance(node, ast.Return) for node in walk(hook)):
            continue
        if names_in(written.target).isdisjoint(parameters_of(hook)):
            continue
        if finding.code != "UC104" and not _gets_results(hook, source):
            continue
        if code := _passed_on(source, *written):
            last = source.line(hook.body[-1])
            if statement is hook.body[-1]:
                text = source.replaced({statement: f"return {code}"})
            elif isinstance(written.target, ast.Name) and not last.in_header:
                name = written.target.id
                end = source.behind(last, source.lines_of((f"return {name}",), last.indent))
                text = source.edited(source.change(statement, f"{name} = {code}"), end)
            else:
                continue
            yield Candidate(f"return a new tensor from `{hook.name}`", {path: text}, hides_nothing=True)


def _gets_results(hook: Function, source: Source) -> bool:
    parts = (part for call in calls(source.tree, _OF_RESULTS) for part in call.args)
    return any(last_name(part) == hook.name for part in parts)


def _passed_on(source: Source, value: str, target: ast.expr) -> str:
    """Return what a hook has to return instead of writing a value to a target; empty if it isn't known.

    A module's hook gets its gradients as a tuple, and returns all of them.
    """
    if not isinstance(target, ast.Subscript):
        return value
    return f"({value}, *{source.code(target.value)}[1:])" if is_constant(target.slice, 0) else ""
