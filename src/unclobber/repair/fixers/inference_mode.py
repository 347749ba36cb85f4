"""Fixer: ``no_grad`` instead of ``inference_mode``, or neither.

A tensor made in inference mode stays outside autograd for ever, and so does a view made there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...model import Finding
from ...syntax import last_name
from .._candidate import Candidate
from .._syntax import Function, Source, flat, is_attribute_of, is_place, is_small, walk
from .._text import Splice
from ..project import Project
from ._sites import callers, modes_in, saved_statements, sites


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield each use of ``inference_mode`` replaced (UC206), or the view taken outside of a mode (UC204)."""
    if finding.code == "UC206":
        places = sites(finding.made, finding.saved, finding.needed, *finding.writes)
        for path, user in project.sources([site.path for site in places], "inference_mode"):
            for node in uses(user):
                title = "use `no_grad` instead of `inference_mode`"
                yield Candidate(title, {path: user.edited(user.renamed(node, "no_grad"))})
        return
    for path, source, statement in callers(project, *finding.writes):
        called = {last_name(call) for call in walk(source.function(statement) or source.tree)}
        for helper in (n for n in source.nodes if isinstance(n, Function) and n.name in called):
            for mode in filter(modes_in, helper.decorator_list):
                texts = {path: source.edited(_without_decorator(source, mode))}
                yield Candidate(f"let `{helper.name}` record gradients", texts, guess=True, late=True)
    for _, (path, source, statement) in saved_statements(finding, project):
        if taken := out_of_block(source, statement):
            yield Candidate("take the view outside the mode", {path: taken})
        for function in (n for n in source.all_above(statement) if isinstance(n, Function)):
            text = without_mode(source, function, statement)
            for inside in recorded(source, function, statement):
                title = f"take the view with gradients recorded in `{function.name}`"
                yield Candidate(title, {path: inside})
            if text is not None:
                title = f"take the view outside the mode: `{function.name}` in normal mode"
                yield Candidate(title, {path: text})


def uses(source: Source) -> list[ast.Attribute]:  # `no_grad` works as a bare decorator, too
    of_torch = (node for node in source.nodes if is_attribute_of(node, source.torch_name or ""))
    return [node for node in of_torch if node.attr == "inference_mode"]


def without_mode(source: Source, function: Function, statement: ast.AST) -> str | None:
    """Return the text without the function's mode decorator, and all but one statement in blocks of that
    mode; None if it has no such decorator, or the statement is not directly in its body."""
    mode = next((mode for mode in function.decorator_list if modes_in(mode)), None)
    if mode is None or statement not in function.body or not is_small(statement):
        return None
    own = source.line(statement)
    if own.in_header:
        return None
    header = f"with {source.code(mode)}{'' if isinstance(mode, ast.Call) else '()'}:"
    documented = ast.get_docstring(function, clean=False) is not None
    first, last = (function.body.index(own.statements[n]) for n in (0, -1))
    changes = [_without_decorator(source, mode)]
    for lines in filter(None, (function.body[documented:first], function.body[last + 1 :])):
        start, end = source.line(lines[0]).above, source.line(lines[-1]).end
        changes.append(Splice(start, end, _under(source, lines, end, header, own.indent)))
    return source.edited(*changes)


def _without_decorator(source: Source, decorator: ast.expr) -> Splice:  # its comment gets a line of its own
    start = source.text.rindex("@", 0, source.start(decorator))
    code, end = source.span(decorator)[1], source.line_end(decorator)
    comment = source.text[code:end].lstrip()
    return Splice(start if comment else len(source.text[:start].rstrip(" \t")), end, comment)


def recorded(source: Source, function: Function, statement: ast.AST) -> Iterator[str]:
    """Yield the text with one statement of a ``no_grad`` function in a block that records gradients."""
    modes = set().union(*map(modes_in, function.decorator_list))
    if modes != {"no_grad"} or not (torch := source.torch_name):
        return  # `enable_grad` records nothing there (test_structural_fixers.py)
    yield from source.put_under(statement, f"with {torch}.enable_grad():")


def out_of_block(source: Source, statement: ast.AST) -> str | None:
    """Return the text with one statement taken out of its ``with torch.no_grad():``, or None."""
    block = source.above(statement, ast.With, ast.AsyncWith)
    if block is None or len(block.items) != 1 or statement not in block.body or not is_small(statement):
        return None
    own, outer = source.line(statement), source.line(block)
    mode = block.items[0].context_expr
    if own.in_header or not modes_in(mode):
        return None
    # A comment indented further than the line below it belongs to what stands above it.
    header = source.text[source.start(block) : source.line(block.body[0]).above].rstrip()
    first, last = (block.body.index(own.statements[n]) for n in (0, -1))
    lines, below = block.body[:first], block.body[last + 1 :]
    end = source.line(below[0]).above if below else own.end
    before = _under(source, lines, own.above, header, outer.indent)
    taken = source.moved(own.above, end, outer.indent)
    after = _under(source, below, outer.end, header, outer.indent)
    return source.edited(Splice(outer.start, outer.end, before + taken + after))


def _under(source: Source, lines: Sequence[ast.stmt], end: int, header: str, indent: str) -> str:
    """Return statements in one ``with`` block, or as they are if none of them computes anything."""
    if not lines:
        return ""
    first = source.line(lines[0])
    if all(map(_is_idle, lines)):
        return source.moved(first.above, end, indent)
    inside = source.moved(first.start, end, indent + source.unit)
    return f"{source.moved(first.above, first.start, indent)}{indent}{header}{source.newline}{inside}"


def _is_idle(line: ast.stmt) -> bool:  # it may run in any mode
    if isinstance(line, ast.Return) and line.value is not None:
        return all(is_place(part) or isinstance(part, ast.Constant) for part in flat(line.value))
    return isinstance(line, ast.Pass | ast.Import | ast.ImportFrom | ast.Return)
