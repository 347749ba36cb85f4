"""Fixer: let two losses go through one graph, by ``retain_graph=True`` in the first backward, or by one
backward on their sum.

Only if the two follow each other in one pass of the program. A loop may come back to the graph that its last
turn has freed: keeping all graphs would then make each turn slower than the last. There the state is
detached (``detach_state``, ``detach_hidden``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from ...model import Finding
from .._candidate import KEPT, Candidate
from .._syntax import Source, calls, is_name, names_in, walk, with_argument
from ..project import Project
from ._blocks import calls_method, in_order, line_in, shortened
from ._sites import callers

_BACKWARDS = ("backward", "grad")
_BETWEEN = {"backward", "step", "zero_grad", "grad", "clip_grad_norm_", "clip_grad_value_"}


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the freeing backward with ``retain_graph=True``, and one backward on the sum of both losses."""
    if not two_losses(finding, project):
        return
    first, second = (list(callers(fact, project)) for fact in (finding.freed, finding.needed))
    for path, source, statement in first:
        for text in retained(source, statement):
            title = f"keep the graph in `{shortened(source.code(statement))}` for the next backward"
            yield Candidate(title, {path: text}, interpretation=KEPT)
            break
    for path, source, statement in first:
        for other, _, later in second:
            joined = summed(source, statement, later) if other == path else None
            if joined is not None:
                title = f"one backward on the sum instead of `{shortened(source.code(statement))}`"
                note = "this gives the same gradients in one pass through the shared graph"
                yield Candidate(title, {path: joined}, interpretation=KEPT, joins=True, note=note)
                return


def two_losses(finding: Finding, project: Project) -> bool:
    """Return whether the backward that freed the graph and the one that needs it belong together: two
    statements of one block that ran one after the other, or one statement in a loop that runs no forward
    of its own."""
    freed, needed = finding.freed, finding.needed
    # With another backward in between, this is a later turn of a loop (test_keep_graph.py,
    # test_the_same_backward_in_another_turn).
    if freed is None or needed is None or needed.nth != freed.nth + 1:
        return False
    earlier, later = list(callers(freed, project)), list(callers(needed, project))
    # from the outermost call inwards, because the callers are equal down to where the two part
    for (path, source, first), (other, _, second) in zip(reversed(earlier), reversed(later), strict=False):
        if first is not second:
            return path == other and _follows(source, first, second)
    if not earlier or not later:
        return False
    _, source, statement = earlier[0]
    return statement is later[0][2] and _only_backward(source, statement)


def _follows(source: Source, first: cst.CSTNode, second: cst.CSTNode) -> bool:
    """Return whether ``second`` stands behind ``first`` in the innermost block that holds both."""
    for above in source.all_above(first):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            at, then = line_in(source, first, above.body), line_in(source, second, above.body)
            if at is not None and then is not None:
                return at < then or (at == then and first is not second and _is_before(source, first, second))
    return False


def _is_before(source: Source, first: cst.CSTNode, second: cst.CSTNode) -> bool:
    line = source.parents[first]
    body = list(line.body) if isinstance(line, cst.SimpleStatementLine) else []
    return second in body and body.index(first) < body.index(second)  # type: ignore[arg-type]


def _only_backward(source: Source, statement: cst.CSTNode) -> bool:
    """Return whether a loop only calls backward, ``for loss in losses: loss.backward()``, on losses from
    before."""
    loop = source.above(statement, cst.For)
    if loop is None or calls_method(loop.body, {"step", "zero_grad"}):
        return False
    roots = [call.func.value for call in calls(statement, _BACKWARDS) if isinstance(call.func, cst.Attribute)]
    return any(names_in(root) & names_in(loop.target) for root in roots)


def retained(source: Source, statement: cst.CSTNode) -> Iterator[str]:
    """Yield the text with ``retain_graph=True`` in a statement's backward, unless it has that already."""
    for call in calls(statement, _BACKWARDS):
        said = [a for a in call.args if a.keyword is not None and a.keyword.value == "retain_graph"]
        if said:
            if is_name(said[0].value, "False"):
                yield source.replaced({said[0].value: cst.Name("True")})
            continue
        yield source.replaced({call: with_argument(call, "retain_graph=True")})


def summed(source: Source, first: cst.CSTNode, second: cst.CSTNode) -> str | None:
    """Return the text with one backward on the sum of two losses, in the second's place.

    Returns:
        None unless both are plain ``loss.backward()`` lines of one block with nothing between them that
        reads gradients or binds the first loss again.
    """
    loss, other = _loss(first), _loss(second)
    line, last = source.own_line(first), source.own_line(second)
    lines = in_order(source, first, last)
    if loss is None or other is None or line is None or lines is None:
        return None
    body, start, stop = lines
    if body[start] is not line or not _quiet(body[start + 1 : stop], names_in(loss)):
        return None
    both = cst.parse_expression(f"({source.code(loss)} + {source.code(other)}).backward()")
    return source.replaced({line: cst.RemoveFromParent(), second: cst.Expr(both)})


def _loss(statement: cst.CSTNode) -> cst.BaseExpression | None:
    call = statement.value if isinstance(statement, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) and not call.args else None
    return func.value if isinstance(func, cst.Attribute) and func.attr.value == "backward" else None


def _quiet(lines: Sequence[cst.CSTNode], names: set[str]) -> bool:
    """Return whether lines neither use gradients nor bind one of the names."""
    for line in lines:
        if calls_method(line, _BETWEEN):
            return False
        for node in walk(line):
            if isinstance(node, cst.Attribute) and node.attr.value == "grad":
                return False
            if isinstance(node, cst.AssignTarget) and names_in(node.target) & names:
                return False
    return True
