"""Fixer: let a custom Function declare that it writes to its input.

If ``forward`` returns the input that it overwrites, ``ctx.mark_dirty`` makes the Function part of the
input's history. If it returns something else, torch would refuse that, and the program doesn't say what the
derivative of the overwritten input should be: then a copy is offered, and the user decides.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from ...syntax import is_in_place
from .._candidate import Candidate
from .._syntax import Source, flat, root_place, walk, with_argument
from ..project import Project
from ._blocks import starting_with
from ._sites import write_statements
from .clone_target import targets


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the forward that wrote, with its input marked or copied."""
    if finding.variant != "unmarked":
        return
    for _, (path, source, statement) in write_statements(finding, project):
        if not isinstance(statement, cst.BaseSmallStatement):
            continue  # in the head of an `if` or a loop nothing can be put before the write
        forward, owner = source.above(statement, cst.FunctionDef), source.above(statement, cst.ClassDef)
        if forward is None or owner is None or forward.name.value != "forward":
            continue
        where = f"`{owner.name.value}.forward`"
        for name in _written_parameters(source, statement, forward):
            if not _returns(forward, name):
                text = source.inserted(statement, before=[f"{name} = {name}.clone()"])
                note = "what reads the input after the Function then finds its old values"
                title = f"write to a copy of `{name}` in {where}"
                if text is not None:
                    yield Candidate(title, {path: text}, offered=True, note=note)
                continue
            text = marked(source, statement, forward, owner, name)
            if text is not None:
                yield Candidate(f"mark `{name}` as written in {where}", {path: text})


def marked(
    source: Source,
    statement: cst.BaseSmallStatement,
    forward: cst.FunctionDef,
    owner: cst.ClassDef,
    name: str,
) -> str | None:
    """Return the text with ``ctx.mark_dirty(name)`` before the writing statement, or in ``setup_context``.

    Returns:
        None if there is no room for it.
    """
    setup = next(
        (n for n in owner.body.body if isinstance(n, cst.FunctionDef) and n.name.value == "setup_context"),
        None,
    )
    parameters = [parameter.name.value for parameter in forward.params.params]
    if setup is None:
        ctx, tensor, function = parameters[0], name, forward
    elif len(setup.params.params) >= 2:
        ctx = setup.params.params[0].name.value
        tensor = f"{setup.params.params[1].name.value}[{parameters.index(name)}]"
        function = setup
    else:
        return None
    for node in walk(function):
        if isinstance(node, cst.Call) and source.code(node.func) == f"{ctx}.mark_dirty":
            # a second call of mark_dirty would replace the tensors that the first one marked
            return source.replaced({node: with_argument(node, tensor)})
    call = f"{ctx}.mark_dirty({tensor})"
    if setup is None:
        return source.inserted(statement, before=[call])
    if not isinstance(setup.body, cst.IndentedBlock):
        return None
    return source.replaced({setup.body: starting_with(setup, source.parsed(call))})


def _written_parameters(
    source: Source, statement: cst.BaseSmallStatement, forward: cst.FunctionDef
) -> list[str]:
    parameters = {parameter.name.value for parameter in forward.params.params}
    return [name for place in targets(source, statement) if (name := source.code(place)) in parameters]


def _returns(forward: cst.FunctionDef, name: str) -> bool:
    """Return whether a ``return`` hands back the tensor itself: ``x``, ``x.mul_(2)``, ``x, y``."""
    returned = (n.value for n in walk(forward) if isinstance(n, cst.Return) and n.value is not None)
    return any(_is_itself(value, name) for values in returned for value in flat(values))


def _is_itself(value: cst.BaseExpression, name: str) -> bool:
    """Return whether an expression is the name itself, perhaps through in-place methods."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        method = value.func.attr.value
        if not is_in_place(method):
            return False
        value = value.func.value
    place = root_place(value)
    return place is value and isinstance(place, cst.Name) and place.value == name
