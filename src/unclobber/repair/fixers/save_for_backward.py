"""Fixer: let autograd keep what a custom Function keeps on ``ctx``, or let the Function keep a copy.

Tensors passed to ``save_for_backward`` are checked for overwriting; ``ctx.x`` is not. Only the Function has
a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Source, is_name, is_place, late, single_target, walk
from ..project import Project
from ._comments import with_comments_of
from ._sites import callers
from .clone_saved import cloned


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the custom Function round a finding's places, rewritten."""
    seen: set[int] = set()
    for fact in (finding.saved, finding.needed, *finding.writes):
        for path, source, statement in callers(fact, project):
            owner = source.above(statement, cst.ClassDef)
            if owner is None or id(owner) in seen:
                continue
            seen.add(id(owner))
            text, read_outside = rewritten(source, owner), _may_be_read_outside(source, owner)
            if text is not None:
                title = f"keep the tensors of `{owner.name.value}` with `save_for_backward`"
                # torch refuses what is overwritten then, so no report shows it before it is proved
                # (test_no_edit_that_a_report_shows_is_refused in tests/programs/test_helps.py).
                yield Candidate(title, {path: text}, guess=read_outside, late=True)
            for text, kept, held in copies(source, owner):
                title = f"keep a copy of `{kept}` for the backward of `{owner.name.value}`"
                known = finding.saved is not None and finding.saved.expression in (kept, held)
                yield Candidate(title, {path: text}, guess=read_outside or not known)


def _may_be_read_outside(source: Source, owner: cst.ClassDef) -> bool:
    """Return whether code outside of the Function reads an attribute named like one set on ``ctx``, which
    would be gone: ``y.grad_fn.s``."""
    inside = list(walk(owner))
    own = {id(node) for node in inside}
    set_there = {
        target.target.attr.value
        for node in inside
        if isinstance(node, cst.Assign)
        for target in node.targets
        if isinstance(target.target, cst.Attribute)
    }
    return any(
        isinstance(node, cst.Attribute) and id(node) not in own and node.attr.value in set_there
        for node in walk(source.module)
    )


def copies(source: Source, owner: cst.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Yield new texts in which a Function keeps copies on ``ctx`` of the values that backward reads there:
    one, then all; each with the value's text and the attribute's."""
    methods = _methods(owner)
    backward = methods.get("backward")
    if backward is None or not backward.params.params:
        return
    back = backward.params.params[0].name.value
    values: dict[cst.BaseExpression, str] = {}  # with the attribute, if it holds this value alone
    for method in (methods.get("forward"), methods.get("setup_context")):
        if method is None or not method.params.params:
            continue
        ctx = method.params.params[0].name.value
        for node in walk(method):
            if isinstance(node, cst.Assign):
                target = single_target(node)
                if isinstance(target, cst.Attribute) and is_name(target.value, ctx):
                    read = _reads_attribute(backward, back, target.attr.value)
                    tensors = _tensors(node.value) if read else []
                    held = source.code(target) if len(tensors) == 1 else ""
                    values |= dict.fromkeys(tensors, held)
            elif isinstance(node, cst.Call) and source.code(node.func) == f"{ctx}.save_for_backward":
                values |= {value: "" for argument in node.args for value in _tensors(argument.value)}
    for value, held in values.items():
        yield source.replaced({value: cloned(value)}), source.code(value), held
    if len(values) > 1:
        yield source.replaced({value: cloned(value) for value in values}), "all that it keeps", ""


def _tensors(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the parts of a kept value that may be tensors; the elements of a tuple."""
    if isinstance(value, (cst.Tuple, cst.List)):
        return [part for element in value.elements for part in _tensors(element.value)]
    return [value] if is_place(value) and not is_name(value, "None") else []


def rewritten(source: Source, owner: cst.ClassDef) -> str | None:
    """Return the text with a Function's ``ctx.name = name`` saved by autograd.

    Returns:
        None if the class is no such Function, saves tensors already, or keeps anything on ``ctx``
        that isn't one of the forward's own arguments.
    """
    methods = _methods(owner)
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or not forward.params.params or not backward.params.params:
        return None
    names = {parameter.name.value for parameter in forward.params.params}
    ctx, back = forward.params.params[0].name.value, backward.params.params[0].name.value
    if _mentions(owner, {"save_for_backward", "saved_tensors", "setup_context"}):
        return None
    kept: list[tuple[cst.SimpleStatementLine, str]] = []
    for line in forward.body.body:
        name = _kept(line, ctx, names)
        if name is not None and isinstance(line, cst.SimpleStatementLine):
            kept.append((line, name))
    used = [name for _, name in kept if _reads_attribute(backward, back, name)]
    kept = [(line, name) for line, name in kept if name in used]
    if not kept or _binds_any(backward, set(used)) or not isinstance(backward.body, cst.IndentedBlock):
        return None
    changes: dict[cst.CSTNode, object] = {line: cst.RemoveFromParent() for line, _ in kept}
    save = source.parsed(f"{ctx}.save_for_backward({', '.join(used)})")
    # The call takes the place of the first removed line, so that comments have a line to go to.
    changes[kept[0][0]] = with_comments_of([line for line, _ in kept], save)
    for node in walk(backward):
        if isinstance(node, cst.Attribute) and node.attr.value in used and is_name(node.value, back):
            changes[node] = node.attr
    comma = "," if len(used) == 1 else ""
    load = source.parsed(f"{', '.join(used)}{comma} = {back}.saved_tensors")
    changes[backward.body] = late(lambda block: block.with_changes(body=after_docstring(block.body, load)))
    return source.replaced(changes)


def _kept(line: cst.CSTNode, ctx: str, names: set[str]) -> str | None:
    """Return ``name`` for the line ``ctx.name = name``, or None."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    target = single_target(line.body[0])
    if not isinstance(target, cst.Attribute) or not is_name(target.value, ctx):
        return None
    name = getattr(cst.ensure_type(line.body[0], cst.Assign).value, "value", None)
    return name if name in names and target.attr.value == name else None


def _methods(owner: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    return {node.name.value: node for node in owner.body.body if isinstance(node, cst.FunctionDef)}


def _mentions(node: cst.CSTNode, names: set[str]) -> bool:
    return any(isinstance(n, cst.Name) and n.value in names for n in walk(node))


def _reads_attribute(function: cst.FunctionDef, owner: str, name: str) -> bool:
    """Return whether a function reads this attribute of this name."""
    attributes = (n for n in walk(function) if isinstance(n, cst.Attribute))
    return any(n.attr.value == name and is_name(n.value, owner) for n in attributes)


def _binds_any(function: cst.FunctionDef, names: set[str]) -> bool:
    """Return whether a function has a parameter or assigns a variable of one of these names."""
    parameters = {parameter.name.value for parameter in function.params.params}
    targets = {
        n.target.value
        for n in walk(function)
        if isinstance(n, cst.AssignTarget) and isinstance(n.target, cst.Name)
    }
    return bool((parameters | targets) & names)


def after_docstring(body: object, load: cst.CSTNode) -> list[cst.CSTNode]:
    """Return a function's lines with one more at the beginning, after the docstring."""
    lines = list(body)  # type: ignore[call-overload]
    first = lines[0] if lines else None
    documented = (
        isinstance(first, cst.SimpleStatementLine)
        and isinstance(first.body[0], cst.Expr)
        and isinstance(first.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )
    return [*lines[:documented], load, *lines[documented:]]
