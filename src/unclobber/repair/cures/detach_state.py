"""Cut a carried state off the graph of the step before: ``state.detach()``.

Truncated back-propagation through time: each backward reaches as far as its own step.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._project import Project
from .._proposal import Proposal
from .._syntax import Source, is_place, names_in, root_name, walk
from ._blocks import binds
from ._sites import callers

_NOTE = "each backward then reaches back to the start of its own step (truncated back-propagation)"


def propose(finding: Finding, project: Project) -> Iterator[Proposal]:
    """Detached reads of what a loop carries from turn to turn, and of what objects keep between calls.

    Which of them ties one graph to the next can't be read from the source: each is tried.
    """
    if finding.code != "UC301":
        return
    files: dict[str, None] = {}
    loops: set[int] = set()
    places = [fact.site for fact in (finding.needed, finding.saved) if fact is not None]
    for site in places:
        if site is None:
            continue
        for (path, source, statement), _ in callers(site, project):
            files[path] = None
            loop = source.above(statement, cst.For) or source.above(statement, cst.While)
            if loop is not None and id(loop) not in loops:
                loops.add(id(loop))
                yield from _proposals(path, carried(source, loop))
                yield from _proposals(path, carried_tuples(source, loop))
    files.update(dict.fromkeys(path for path in project.loaded if project.owns(path)))
    for path in files:
        if (known := project.source(path)) is not None:
            yield from _proposals(path, kept(known))


def _proposals(path: str, found: Iterator[tuple[str, str]]) -> Iterator[Proposal]:
    for text, name in found:
        yield Proposal("detach-state", f"detach `{name}` from the step before", {path: text}, note=_NOTE)


def carried(source: Source, loop: cst.For | cst.While) -> Iterator[tuple[str, str]]:
    """New texts in which a loop detaches what it reads of the turn before, with the name it is kept in."""
    for node in _carried_reads(source, loop):
        yield source.replaced({node: _detached(node)}), source.code(node)


def carried_tuples(source: Source, loop: cst.For | cst.While) -> Iterator[tuple[str, str]]:
    """New texts in which a loop ends by detaching all tensors of a tuple that it carries: an LSTM's state."""
    lines = getattr(loop.body, "body", ())
    last = lines[-1] if lines else None
    if not isinstance(last, cst.SimpleStatementLine):
        return
    for name in dict.fromkeys(source.code(node) for node in _carried_reads(source, loop)):
        text = source.inserted(last.body[-1], after=[f"{name} = tuple(one.detach() for one in {name})"])
        if text is not None:
            yield text, name


def _carried_reads(source: Source, loop: cst.For | cst.While) -> Iterator[cst.BaseExpression]:
    """Where a loop reads what the turn before left.

    A name is carried if the loop's body assigns it and reads it before, and if it isn't the loop's own.
    """
    own = names_in(loop.target) if isinstance(loop, cst.For) else set()
    bound: set[str] = set(own)
    carries = binds(loop.body) - own
    for line in getattr(loop.body, "body", ()):
        for node in walk(line):
            if is_place(node) and source.code(node) in carries - bound and _is_operand(source, node):
                assert isinstance(node, cst.BaseExpression)
                yield node
        bound |= binds(line)


def kept(source: Source) -> Iterator[tuple[str, str]]:
    """New texts in which a method stores ``self.x = name`` detached; not where the object is made."""
    for node in source.smalls:
        if not (isinstance(node, cst.Assign) and len(node.targets) == 1 and is_place(node.value)):
            continue
        target = node.targets[0].target
        function = source.above(node, cst.FunctionDef)
        if not (isinstance(target, cst.Attribute) and root_name(target) == "self") or function is None:
            continue
        if function.name.value != "__init__":
            yield source.replaced({node.value: _detached(node.value)}), source.code(target)


def _is_operand(source: Source, node: cst.CSTNode) -> bool:
    """Whether a name is read as a value by itself: an argument or an operand."""
    parent = source.parents.get(node)
    if isinstance(parent, cst.Arg):
        return parent.value is node
    return isinstance(parent, cst.BinaryOperation)


def _detached(node: cst.BaseExpression) -> cst.BaseExpression:
    return cst.Call(cst.Attribute(node, cst.Name("detach")))
