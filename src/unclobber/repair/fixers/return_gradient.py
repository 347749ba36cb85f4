"""Fixer: let a hook return the new gradient, or the module's new result, that it now writes in place.

A hook that returns None passes on the tensor that it got, with its own writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Function, Source, calls, is_constant, parameters_of, root_name, walk
from ..project import Project
from ._inplace import written_by
from ._sites import write_statements

_OF_RESULTS = ("register_forward_hook", "register_module_forward_hook")


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the hook with its write out of place, and a ``return`` of the result."""
    for _, (path, source, statement) in write_statements(finding, project):
        hook, written = source.function(statement), written_by(statement, source)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else written and written.target
        if hook is None or target is None or any(isinstance(node, ast.Return) for node in walk(hook)):
            continue
        name = root_name(target.value if isinstance(target, ast.Subscript) else target)
        of_results, last = gets_results(hook, source), source.line(hook.body[-1])
        if name not in parameters_of(hook) or (finding.code != "UC104" and not of_results):
            continue
        code = _passed_on(source, *written) if written else ""
        first = source.first_in(hook, f"{name} = {name}.clone()")
        end = source.behind(last, source.lines_of(f"return {name}", last.indent))
        if code and statement is hook.body[-1]:
            text = source.replaced({statement: f"return {code}"})
        elif code and isinstance(target, ast.Name) and not last.in_header:
            text = source.edited(source.change(statement, f"{name} = {code}"), end)
        elif of_results and isinstance(target, ast.Subscript) and first and not last.in_header:
            text = source.edited(first, end)  # parts of a result, as heads of attention
        else:
            continue
        yield Candidate(f"return a new tensor from `{hook.name}`", {path: text}, hides_nothing=True)


def gets_results(hook: Function | None, source: Source) -> bool:
    """Return whether a function is registered as a forward hook: by itself, or by a call that returns it."""
    parts = (part for call in calls(source.tree, _OF_RESULTS) for part in call.args)
    owner = source.above(hook, ast.ClassDef) if hook and hook.name == "__call__" else None
    names = {hook and hook.name, *(("self", owner.name) if owner else ())}  # an object that is called
    if maker := source.above(hook, ast.FunctionDef) if hook else None:
        returned = [node.value for node in walk(maker) if isinstance(node, ast.Return) and node.value]
        names |= {maker.name} if names & set(map(last_name, returned)) else set()
    return any(last_name(getattr(part, "func", part)) in names for part in parts)


def _passed_on(source: Source, value: str, target: ast.expr) -> str:
    """Return what a hook has to return instead of writing a value to a target; empty if it isn't known.

    A module's hook gets its gradients as a tuple, and returns all of them.
    """
    if not isinstance(target, ast.Subscript):
        return value
    return f"({value}, *{source.code(target.value)}[1:])" if is_constant(target.slice, 0) else ""
