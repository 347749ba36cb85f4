"""Fixer: let a custom Function declare that it writes to its input.

If ``forward`` returns the input that it overwrites, ``ctx.mark_dirty`` makes the Function part of the
input's history. If it returns something else, torch would refuse that, and the program doesn't say what the
derivative of the overwritten input should be: then a copy is offered, and the user decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from ...syntax import dotted
from .._candidate import Candidate
from .._syntax import Function, Source, calls, flat, methods_of, parameters_of, with_argument
from ..project import Project
from ._inplace import in_place
from ._sites import write_statements
from .clone_target import targets


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the forward that wrote, with its input marked or copied."""
    if finding.variant != "unmarked":
        return
    for _, (path, source, statement) in write_statements(finding, project):
        forward, owner = source.function(statement), source.above(statement, ast.ClassDef)
        if forward is None or owner is None or forward.name != "forward":
            continue
        where = f"`{owner.name}.forward`"
        for name in map(source.code, targets(source, statement)):
            if name not in parameters_of(forward):
                continue
            # Saved as well, the input would be refused in backward.
            kept = [part for call in calls(forward, ("save_for_backward",)) for part in call.args]
            if not _returns(source, forward, name) or name in map(dotted, kept):
                note = "what reads the input after the Function then finds its old values"
                title = f"write to a copy of `{name}` in {where}"
                for text in source.inserted(statement, before=f"{name} = {name}.clone()"):
                    yield Candidate(title, {path: text}, offered=True, note=note)
                continue
            for text in marked(source, statement, forward, owner, name):
                yield Candidate(f"mark `{name}` as written in {where}", {path: text})


def marked(
    source: Source, statement: ast.AST, forward: Function, owner: ast.ClassDef, name: str
) -> Iterator[str]:
    """Yield the text with ``ctx.mark_dirty(name)`` before the writing statement, or in ``setup_context``;
    nothing if there is no room."""
    setup = methods_of(owner).get("setup_context")
    parameters = parameters_of(forward)
    if setup is None:
        ctx, tensor = parameters[0], name
    else:
        ctx, inputs, *_ = parameters_of(setup)
        tensor = f"{inputs}[{parameters.index(name)}]"
    for node in calls(setup or forward, ("mark_dirty",)):
        if dotted(node.func) == f"{ctx}.mark_dirty":
            # a second call of mark_dirty would replace the tensors that the first one marked
            yield source.edited(with_argument(source, node, tensor))
            return
    call = f"{ctx}.mark_dirty({tensor})"
    if setup is None:
        yield from source.inserted(statement, before=call)
    elif (first := source.first_in(setup, call)) is not None:
        yield source.edited(first)


def _returns(source: Source, forward: Function, name: str) -> bool:
    """Return whether a ``return`` hands back the tensor itself: ``x``, ``x.mul_(2)``, ``x, y``."""
    returned = (n.value for n in ast.walk(forward) if isinstance(n, ast.Return) and n.value is not None)
    values = (value for values in returned for value in flat(values))
    return any(dotted(call.target if (call := in_place(v, source)) else v) == name for v in values)
