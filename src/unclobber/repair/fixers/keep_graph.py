"""Fixer: let two losses go through one graph, by ``retain_graph=True`` in the first backward.

Only if the two follow each other in one turn: keeping the graphs of all turns would make each slower than the
last, so there the state is detached (``detach_state``, ``detach_hidden``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding, Interpretation
from .._candidate import Candidate
from .._syntax import Source, calls, is_constant, names_in, walk, with_argument
from ..project import Project
from ._blocks import line_in, shortened
from ._sites import callers

_BACKWARDS = ("backward", "grad")


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the freeing backward with ``retain_graph=True``."""
    if not two_losses(finding, project):
        return
    for path, source, statement in callers(project, finding.freed):
        for text in retained(source, statement):
            title = f"keep the graph in `{shortened(source.code(statement))}` for the next backward"
            late = _is_stepped(finding, project)
            yield Candidate(title, {path: text}, interpretation=Interpretation.KEPT, late=late)
            return


def _is_stepped(finding: Finding, project: Project) -> bool:
    """Return whether a step, which may overwrite what the graph needs, stands behind the freeing backward, in
    its function or in a caller's, and before the next backward."""
    later = [at for _, _, at in callers(project, finding.needed)]
    for _, source, at in callers(project, finding.freed):
        block = source.loop_round(at) or source.function(at) or source.tree
        ends = [source.start(end) for end in walk(block) if end in later and end is not at]
        steps = map(source.start, calls(block, {"step"}))
        if any(source.end(at) < step < min([*ends, step + 1]) for step in steps):
            return True
    return False


def two_losses(finding: Finding, project: Project) -> bool:
    """Return whether the backward that freed the graph and the one that needs it belong together: statements
    of one block that ran one after the other, or one of a loop that runs no forward of its own."""
    freed, needed = finding.freed, finding.needed
    if freed is None or needed is None:
        return False
    # A call more than stands between them is one of another turn (test_another_loss_in_between).
    between = needed.nth - freed.nth - 1
    earlier, later = list(callers(project, freed)), list(callers(project, needed))
    # from the outermost call inwards, because the callers are equal down to where the two part
    for (path, source, first), (other, _, second) in zip(reversed(earlier), reversed(later), strict=False):
        if first is not second:
            return path == other and _follows(source, first, second, between)
    if not earlier or not later or between:
        return False
    _, source, statement = earlier[0]
    made = [at for _, text, at in callers(project, finding.saved) if text is source]
    return statement is later[0][2] and _only_backward(source, statement, made)


def _follows(source: Source, first: ast.AST, second: ast.AST, between: int) -> bool:
    """Return whether ``second`` stands behind ``first`` in the innermost block that holds both, and ran in
    the same turn of a loop: ``between`` backward calls ran in between, as many as stand there."""
    for above in source.statements_round(first):
        block = source.block(above)
        then = line_in(source, second, block)
        if then is not None:
            lines = block[block.index(above) + 1 : then]
            ran = [call for line in lines for call in calls(line, _BACKWARDS)]
            return block.index(above) < then and len(ran) == between
    return False


def _only_backward(source: Source, statement: ast.AST, made: list[ast.AST]) -> bool:
    """Return whether a loop runs backward on losses from before, or on those of what was made before."""
    loop = source.above(statement, ast.For)
    if loop is None or any(call for line in loop.body for call in calls(line, {"step", "zero_grad"})):
        return False
    before = bool(made) and not any(loop in source.all_above(at) for at in made)
    roots = [call.func.value for call in calls(statement, _BACKWARDS) if isinstance(call.func, ast.Attribute)]
    return before or any(names_in(root) & names_in(loop.target) for root in roots)


def retained(source: Source, statement: ast.AST) -> Iterator[str]:
    for call in calls(statement, _BACKWARDS):
        said = [keyword.value for keyword in call.keywords if keyword.arg == "retain_graph"]
        if not said:
            yield source.edited(with_argument(source, call, "retain_graph=True"))
        elif is_constant(said[0], False):
            yield source.replaced({said[0]: "True"})
