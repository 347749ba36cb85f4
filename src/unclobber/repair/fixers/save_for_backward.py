"""Fixer: let autograd keep what a custom Function keeps on ``ctx``, or let the Function keep a copy.

Tensors passed to ``save_for_backward`` are checked for overwriting; ``ctx.x`` is not. Only the Function has
a copy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from ...syntax import dotted, last_name
from .._candidate import Candidate
from .._syntax import (
    Function,
    Line,
    Source,
    flat,
    is_attribute_of,
    is_place,
    is_small,
    methods_of,
    parameters_of,
    single_target,
    walk,
)
from .._text import Splice, lines_in
from ..project import Project
from ._blocks import binds
from ._sites import callers
from .clone_target import targets


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the custom Function round a finding's places, rewritten."""
    places = callers(project, finding.saved, finding.needed, *finding.writes)
    owners = {source.above(at, ast.ClassDef): (path, source) for path, source, at in places}
    for owner, (path, source) in owners.items():
        if owner is None:
            continue
        text, read_outside = rewritten(source, owner), _may_be_read_outside(source, owner)
        if text is not None:
            title = f"keep the tensors of `{owner.name}` with `save_for_backward`"
            # torch refuses what is overwritten then, so no report shows it before it is proved
            # (test_no_edit_that_a_report_shows_is_refused in tests/programs/test_helps.py).
            yield Candidate(title, {path: text}, guess=read_outside, late=True)
        for text, kept, held in copies(source, owner):
            title = f"keep a copy of `{kept}` for the backward of `{owner.name}`"
            known = finding.saved is not None and finding.saved.expression in (kept, held)
            guess = read_outside or not known
            yield Candidate(title, {path: text}, guess=guess, hides_nothing=kept == held)


def _may_be_read_outside(source: Source, owner: ast.ClassDef) -> bool:
    """Return whether code outside of the Function reads an attribute named like one set on ``ctx``, which
    would be gone: ``y.grad_fn.s``."""
    inside = set(walk(owner))
    attributes = [node for node in source.nodes if isinstance(node, ast.Attribute)]
    set_there = {node.attr for node in attributes if node in inside and isinstance(node.ctx, ast.Store)}
    return any(node.attr in set_there for node in attributes if node not in inside)


def copies(source: Source, owner: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Yield the texts with copies kept on ``ctx`` of the values that backward reads there:
    one, then all; each with the value's text and the attribute's. What forward itself writes there, as into
    a workspace, is copied behind the write."""
    methods = methods_of(owner)
    backward = methods.get("backward")
    if backward is None or not parameters_of(backward):
        return
    back = parameters_of(backward)[0]
    values: dict[ast.expr, str] = {}  # with the attribute, if it holds this value alone
    for method in (methods[name] for name in ("forward", "setup_context") if name in methods):
        ctx = next(iter(parameters_of(method)), "")
        for node in walk(method):
            target = single_target(node)
            if isinstance(node, ast.Assign) and is_attribute_of(target, ctx):
                if _reads_attribute(backward, back, target.attr):
                    tensors = list(filter(is_place, flat(node.value)))
                    values |= dict.fromkeys(tensors, source.code(target) if len(tensors) == 1 else "")
            elif isinstance(node, ast.Call) and dotted(node.func) == f"{ctx}.save_for_backward":
                values |= dict.fromkeys(filter(is_place, node.args), "")
            for place in targets(source, node) if is_small(node) else ():
                if is_attribute_of(place, ctx) and _reads_attribute(backward, back, place.attr):
                    name = source.code(place)
                    copied = source.inserted(node, after=f"{name} = {name}.clone()")
                    yield from ((text, name, name) for text in copied)
    changes: dict[ast.AST, str] = {value: f"{source.code(value)}.clone()" for value in values}
    for value, held in values.items():
        yield source.replaced({value: changes[value]}), source.code(value), held
    if len(values) > 1:
        yield source.replaced(changes), "all that it keeps", ""


def rewritten(source: Source, owner: ast.ClassDef) -> str | None:
    """Return the text with a Function's ``ctx.name = name`` saved by autograd; None if the class is no such
    Function, saves tensors already, or keeps anything on ``ctx`` but the forward's own arguments."""
    methods = methods_of(owner)
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or not parameters_of(forward) or not parameters_of(backward):
        return None
    ctx, back = parameters_of(forward)[0], parameters_of(backward)[0]
    saves = {"save_for_backward", "saved_tensors"} & {last_name(node) for node in walk(owner)}
    if saves or "setup_context" in methods:
        return None
    kept: dict[str, Line] = {}
    for statement in forward.body:
        match statement:
            case ast.Assign([ast.Attribute(ast.Name(place), name)], ast.Name(value)) if place == ctx:
                line, is_argument = source.own_line(statement), name == value in parameters_of(forward)
                if line is not None and is_argument and _reads_attribute(backward, back, name):
                    kept[name] = line
    if not kept or kept.keys() & (binds(backward) | {*parameters_of(backward)}):
        return None
    names = ", ".join(kept)
    load = source.first_in(backward, f"{names}{',' if len(kept) == 1 else ''} = {back}.saved_tensors")
    if load is None:
        return None
    # The call takes the place of the first removed line, so that comments have a line to go to.
    first, *others = kept.values()
    save = _with_comments_of([first, *others], f"{first.indent}{ctx}.save_for_backward({names})", source)
    reads = (node for node in walk(backward) if is_attribute_of(node, back) and node.attr in kept)
    named = (source.change(node, node.attr) for node in reads)
    return source.edited(Splice(first.above, first.end, save), *map(source.removed, others), *named, load)


def _with_comments_of(lines: list[Line], code: str, source: Source) -> str:
    """Return code below the lines above some lines, and below the comments at their ends."""
    above = []
    for line in lines:
        # blank lines between the old lines no longer separate anything
        leading = lines_in(source.text[line.above : line.start])
        above += [blank for blank in leading if "#" in blank or line is lines[0]]
        end = source.text[source.end(line.statements[0]) : line.end]
        above += [line.indent + end.lstrip()] if "#" in end else []
    return "".join([*above, code, source.newline])


def _reads_attribute(function: Function, owner: str, name: str) -> bool:
    return any(is_attribute_of(node, owner) and node.attr == name for node in walk(function))
