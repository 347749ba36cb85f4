"""Fixer: take values off their graph where they are stored for later backwards: ``kept.append(p.detach())``.

A rollout keeps log-probabilities and values that several updates read, and the first backward frees the
graph that they are tied to. PPO and a replay buffer want them as constants. That changes the first backward,
too, so it is the user's to decide: a ``.detach()`` where a value is stored, or the loop that stores under
``no_grad``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...model import Finding
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Loop, Source, arguments_of, calls, flat, is_name, is_small, walk
from ..project import Project
from ._blocks import shortened
from ._sites import callers
from .detach_state import detached
from .keep_graph import two_losses

_NOTE = "what is stored is a constant then: no gradient reaches it, not in the first backward either"
_STORES = {"append", "appendleft", "add", "push", "insert", "store", "put", "remember"}


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield a stored value detached, then the loops that ran before the backward under ``no_grad``."""
    if two_losses(finding, project):
        return
    made = list(callers(project, finding.saved))
    backwards = list(callers(project, finding.needed))
    turns = {above for _, source, backward in backwards for above in source.all_above(backward)}
    loop = next(filter(None, (source.loop_round(statement) for _, source, statement in made)), None)
    # What each turn computes before its own backward is no constant: `self.h = self.cell(x, self.h)`.
    for path, source, statement in () if loop in turns else made:
        for values in _stored(source, statement):
            text = source.replaced({value: detached(source, value) for value in values})
            title = f"keep `{shortened(source.code(values[0]))}` detached"
            yield Candidate(title, {path: text}, offered=True, note=_NOTE)
    for path, source, statement in backwards:
        for loop in _loops_before(source, statement):
            title = f"run `{source.text.splitlines()[loop.lineno - 1].strip()}` under `no_grad`"
            text = source.block_put_under(loop, f"with {source.torch_name}.no_grad():")
            yield Candidate(title, {path: text}, offered=True, note=_NOTE)


def _stored(source: Source, statement: ast.AST) -> Iterator[Sequence[ast.expr]]:
    """Yield the computed values that a statement stores, or the reads that store the name it binds."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            stores = filter(is_small, walk(source.function(statement) or source.tree))
            # `old = policy(states).log_prob(actions)` before the updates is stored by nothing.
            yield [read for line in stores for read in _values(line) if is_name(read, name)] or [value]
        case _:
            yield from ([value] for value in _values(statement) if isinstance(value, ast.Call))


def _values(statement: ast.AST) -> Iterator[ast.expr]:
    """Yield what a statement puts into a container or an attribute, element by element."""
    stored: list[ast.expr] = []
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name)) as call) if name in _STORES:
            stored = arguments_of(call)
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()], value=value):
            stored = [value]
    for value in (part for each in stored for part in flat(each)):
        # `buffer.append(Transition(state, action, value))`
        if isinstance(value, ast.Call) and last_name(value.func)[:1].isupper():
            yield from arguments_of(value)
        else:
            yield value


def _loops_before(source: Source, statement: ast.AST) -> Iterator[Loop]:
    """Yield the last loop without a backward before a statement, in each block around it."""
    for above in source.statements_round(statement) if source.torch_name else ():
        block = source.block(above)
        loops = [line for line in block[: block.index(above)] if isinstance(line, Loop)]
        yield from [loop for loop in loops if not any(calls(loop, {"backward"}))][-1:]
