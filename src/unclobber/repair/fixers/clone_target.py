"""Fixer: write to a copy, by ``x = x.clone()`` before the writing statement, or a copy for the call that
writes.

The narrowest such place is the statement itself; if a helper writes to its argument, the caller owns the
name.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, is_place, root_place, walk
from ..project import Project
from ._aliases import held_elsewhere
from ._inplace import in_place
from ._liveness import read_later
from ._sites import LocatedStatement, callers, steps_along_gradient, write_statements
from .clone_saved import cloned


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield a clone before each writing statement, then copies for the calls that led to it."""
    if finding.code == "UC301":
        return
    for write, (path, source, statement) in write_statements(finding, project):
        if finding.code == "UC201" and steps_along_gradient(statement):
            continue  # a new tensor is no leaf: its `.grad` would stay empty from the next step on
        for place in targets(source, statement):
            if not read_later(source, statement, place):
                continue
            name = source.code(place)
            text = source.inserted(statement, before=[f"{name} = {name}.clone()"])
            if text is not None:
                shared_name = name if held_elsewhere(source, statement, place) else ""
                yield Candidate(f"write to a copy of `{name}`", {path: text}, shared_name=shared_name)
        for located in callers(write, project):
            yield from _copies_for_calls(located)


def targets(source: Source, statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the names that hold the tensors which a statement writes to."""
    places: list[cst.BaseExpression | None] = []
    if isinstance(statement, cst.AugAssign):
        places.append(root_place(statement.target))
    if isinstance(statement, cst.Assign):
        places += [root_place(t.target) for t in statement.targets if isinstance(t.target, cst.Subscript)]
    for node in walk(statement):
        if (written := in_place(node, source)) is not None:
            places.append(root_place(written.target))
    unique: dict[str, cst.BaseExpression] = {}
    for place in places:
        if place is not None:
            unique.setdefault(source.code(place), place)
    return list(unique.values())


def _copies_for_calls(located: LocatedStatement) -> Iterator[Candidate]:
    """Yield ``f(x.clone())`` for ``y = f(x)``. A call whose value is dropped is left out, because it
    exists for the write alone."""
    path, source, statement = located
    if isinstance(statement, cst.Expr):
        return
    for node in walk(statement):
        if isinstance(node, cst.Call):
            for argument in node.args:
                if is_place(argument.value) and not argument.star:
                    name = source.code(argument.value)
                    text = source.replaced({argument.value: cloned(argument.value)})
                    title = f"hand a copy of `{name}` to `{source.code(node.func)}`"
                    held = read_later(source, statement, argument.value) or held_elsewhere(
                        source, statement, argument.value
                    )
                    shared_name = name if held else ""
                    yield Candidate(title, {path: text}, shared_name=shared_name, guess=True)
