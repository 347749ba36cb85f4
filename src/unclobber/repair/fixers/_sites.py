"""The statements of the user's files that a finding names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding, Need, Save, Site, Write
from ...syntax import last_name
from .._syntax import Source, targets_of, walk
from ..project import Project
from ._inplace import in_place, written_by

LocatedStatement = tuple[str, Source, ast.AST]
"""Path of a file, its tree, and one simple statement in it; or an expression: the one in a compound one's
header, or the call that wrote in a statement that writes another tensor itself."""
_MOST_CALLERS = 5


def write_statements(finding: Finding, project: Project) -> Iterator[tuple[Write, LocatedStatement]]:
    """Yield the statements that wrote, in order: the first to make a new tensor spares the next ones."""
    seen: set[ast.AST] = set()
    for write in finding.writes:
        for site in sites(write):
            for path, source, statement in _located(project, site.path, site.line, site.column):
                at = _writer(source, statement, site)
                if at not in seen:
                    seen.add(at)
                    yield write, (path, source, at)


def _writer(source: Source, statement: ast.AST, site: Site) -> ast.AST:
    """Return the statement, or the call at the site if another part of the statement writes another tensor:
    ``h.mul_(2)`` of ``total += h.mul_(2).sum()``."""
    own, call = written_by(statement, source), source.call_at(site)
    is_part = any(isinstance(target, ast.Subscript) for target in targets_of(statement))
    if call is None or not (own or is_part):
        return statement
    if (written := in_place(call, source)) is None:
        return call
    calls = ((node, in_place(node, source)) for node in walk(statement))  # the whole chain is first
    outer = next((node for node, other in calls if other and other.target is written.target), call)
    return statement if own and written.target is own.target else outer


def saved_statements(finding: Finding, project: Project) -> Iterator[tuple[Site, LocatedStatement]]:
    for site in sites(finding.saved):
        yield from ((site, at) for at in _located(project, site.path, site.line, site.column))


def sites(*facts: Save | Write | Need | None) -> list[Site]:
    return [fact.site for fact in facts if fact is not None and fact.site is not None]


def callers(project: Project, *facts: Save | Write | Need | None) -> Iterator[LocatedStatement]:
    """Yield the user's statements that led to each fact's site, innermost first; its own is the first."""
    for site in sites(*facts):
        yield from _located(project, site.path, site.line, site.column)
        places = dict.fromkeys((f.path, f.line) for f in site.stack if not f.library)
        places.pop((site.path, site.line), None)
        for place in list(places)[: _MOST_CALLERS - 1]:
            yield from _located(project, *place)


def overwrites_parameters(finding: Finding) -> bool:
    """Return whether a step or another update of weights may have written what a backward needs."""
    if finding.saved is None or finding.saved.site is None:
        return False
    # A silent write mostly comes without a name: `p.data = other` below a module's call.
    unseen = finding.code == "UC102" and bool(finding.saved.site.below)
    by_optimizer = any(write.optimizer is not None for write in finding.writes)
    return by_optimizer or unseen or finding.saved.name is not None


def modes_in(head: ast.AST) -> set[str]:  # of a block or a decorator, as far as they record nothing
    return {last_name(node) for node in walk(head)} & {"no_grad", "inference_mode"}


def is_unrecorded(finding: Finding, project: Project) -> bool:
    """Return whether a write stands in a block, or in a function, in which nothing is recorded."""
    places = (located for _, located in write_statements(finding, project))
    above = (block for _, source, statement in places for block in source.all_above(statement))
    heads = ((*getattr(of, "items", ()), *getattr(of, "decorator_list", ())) for of in above)
    return any(modes_in(head) for each in heads for head in each)


def steps_along_gradient(statement: ast.AST) -> bool:  # a hand-made step changes the parameter itself
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in walk(statement))


def _located(project: Project, path: str, line: int, column: int | None = None) -> Iterator[LocatedStatement]:
    source = project.source(path)
    if source is None:
        return
    at = source.statement(line, column) or source.statement(line)
    if (statement := at or source.in_header(line)) is not None:
        yield path, source, statement
