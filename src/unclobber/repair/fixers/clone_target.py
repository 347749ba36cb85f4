"""Fixer: write to a copy, by ``x = x.clone()`` before the writing statement, or one for the writing call.

The narrowest such place is the statement itself; if a helper writes to its argument, the caller owns the
name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, arguments_of, is_place, root_place, targets_of, walk
from ..project import Project
from ._aliases import can_bind, shared_name
from ._blocks import fills
from ._fresh import is_container
from ._inplace import in_place
from ._sites import LocatedStatement, callers, steps_along_gradient, write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield a clone before each writing statement, then copies for the calls that led to it."""
    if finding.code in ("UC209", "UC301"):  # under vmap the copy would have no batch, either
        return
    for write, (path, source, statement) in write_statements(finding, project):
        if finding.code == "UC201" and steps_along_gradient(statement):
            continue  # a new tensor is no leaf: its `.grad` would stay empty from the next step on
        for place in targets(source, statement):
            if not can_bind(source, statement, place) or is_container(source, statement, place):
                continue
            name = source.code(place)
            for text in source.inserted(statement, before=f"{name} = {name}.clone()"):
                shared = shared_name(source, statement, place)
                # What else the statement reads of it is the copy's: `hs[t + 1] = cell(hs[t])`.
                reads = sum(source.code(node) == name for node in walk(statement) if is_place(node)) > 1
                whole, title = name if fills(source, statement, place) else "", f"write to a copy of `{name}`"
                yield Candidate(title, {path: text}, whole=whole, shared_name=shared, guess=reads)
        for located in callers(project, write):
            yield from _copies_for_calls(located)


def targets(source: Source, statement: ast.AST) -> list[ast.expr]:
    """Return the names that hold the tensors which a statement writes to."""
    kind = ast.expr if isinstance(statement, ast.AugAssign) else ast.Subscript
    written = [target for target in targets_of(statement) if isinstance(target, kind)]
    calls = (in_place(node, source) for node in walk(statement))
    written += [call.target for call in calls if call is not None]
    unique: dict[str, ast.expr] = {}
    for place in filter(None, map(root_place, written)):
        unique.setdefault(source.code(place), place)
    return list(unique.values())


def _copies_for_calls(located: LocatedStatement) -> Iterator[Candidate]:
    """Yield ``f(x.clone())`` for ``y = f(x)``; a call whose value is dropped is there for the write alone."""
    path, source, statement = located
    if isinstance(statement, ast.Expr):
        return
    alike: dict[tuple[str, int], list[ast.expr]] = {}  # the arguments at one place of one function's calls
    for node in walk(statement):
        for at, argument in enumerate(arguments_of(node)) if isinstance(node, ast.Call) else ():
            if is_place(argument):
                alike.setdefault((source.code(node.func), at), []).append(argument)  # type: ignore[attr-defined]
    # `q, k = rotate(q, cos), rotate(k, cos)`: one copy would leave the same finding, of the other call.
    together = [(function, arguments) for (function, _), arguments in alike.items() if len(arguments) > 1]
    alone = [(function, [argument]) for (function, _), arguments in alike.items() for argument in arguments]
    for function, arguments in (*alone, *together):
        names = " and of ".join(f"`{name}`" for name in dict.fromkeys(map(source.code, arguments)))
        text = source.replaced({argument: f"{source.code(argument)}.clone()" for argument in arguments})
        title = f"hand a copy of {names} to `{function}`"
        later = (source.code(argument) for argument in arguments if can_bind(source, statement, argument))
        held = (shared_name(source, statement, argument) for argument in arguments)
        shared = next(filter(None, (*later, *held)), "")
        yield Candidate(title, {path: text}, shared_name=shared, guess=True)
