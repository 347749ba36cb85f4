"""Fixer: write the result into a new tensor, ``x += y`` as ``x = x + y``.

Right if no other code relies on the old tensor being changed through another name; the proof finds out
whether any does.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from ...model import Finding, Site
from ...syntax import torch_table
from .._candidate import Candidate
from .._syntax import Source, flat, is_place, targets_of, walk
from ..project import Project
from ._aliases import can_bind, held_elsewhere, is_element, is_local_to, read_later, shared_name
from ._fresh import is_fresh
from ._inplace import in_place, receiver, uses_result, written_by
from ._sites import steps_along_gradient, write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statements in their out-of-place forms."""
    for write, (path, source, statement) in write_statements(finding, project):
        if finding.code == "UC201" and steps_along_gradient(statement):
            continue  # a new tensor is no leaf: its `.grad` would stay empty from the next step on
        is_read_again = finding.variant == "recomputed"  # so no name may be bound to the result
        for text, name, shared in () if is_read_again else bound(source, statement):
            yield Candidate(f"bind `{name}` to the new values", {path: text}, guess=True, shared_name=shared)
        narrow = finding.saved is not None and finding.saved.dtype in _NARROW
        for text, target, is_shared in rewrites(source, statement, write.site, keep_dtype=narrow):
            if finding.code == "UC209" and write.operation in torch_table().overwrites_all:
                continue  # what is filled in its place would have no batch, either
            scope = source.function(statement)
            if scope is not None and target.isidentifier() and not is_local_to(source, scope, target):
                continue  # a global's name would become the function's own, without a value
            if is_read_again and target:
                continue
            title = f"write {f'`{target}`' if target else 'the result'} into a new tensor"
            yield Candidate(title, {path: text}, shared_name=target or "the tensor" if is_shared else "")
        # A module's parameter can't be bound to a new tensor, and the result may be all that is meant.
        for node in walk(statement) if finding.code == "UC201" and uses_result(source, statement) else ():
            if (called := in_place(node, source)) and is_place(called.target):
                text, name = source.replaced({node: called.value}), source.code(called.target)
                yield Candidate("write the result into a new tensor", {path: text}, shared_name=name)


_NARROW = frozenset({"bfloat16", "float16"})
"""Dtypes that an in-place operation keeps, but its out-of-place form with a float32 tensor does not."""


def bound(source: Source, statement: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield ``x = y`` for ``x.copy_(y)`` and ``x[:] = y``, which is the same for the shape and dtype of x."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(target, "copy_"), args=[new])):
            pass
        case ast.Assign([ast.Subscript(target, index)], new) if ast.unparse(index) in (":", "..."):
            pass
        case _:
            return
    if is_place(target) and not isinstance(new, ast.Constant) and can_bind(source, statement, target):
        name = source.code(target)
        value = source.code(new) if is_fresh(new, source) else f"{source.in_brackets(new)}.clone()"
        yield source.replaced({statement: f"{name} = {value}"}), name, shared_name(source, statement, target)


def rewrites(
    source: Source, statement: ast.AST, site: Site | None = None, *, keep_dtype: bool = False
) -> Iterator[tuple[str, str, bool]]:
    """Yield new texts of the file, the name that is bound to the result (empty if none is), and whether other
    holders of its tensor may exist: first for what wrote at ``site``, and in the old dtype, too."""
    written = written_by(statement, source)
    if written is None:
        yield from _inside(source, statement, site)
        return
    value, target = written
    parts = list(flat(target))
    is_shared, name = held_elsewhere(source, statement, target), source.code(target)
    is_read = any(can_bind(source, statement, part) for part in parts)
    if not all(map(is_place, parts)) or (is_shared and not is_read):
        return
    yield source.replaced({statement: f"{name} = {value}"}), name, is_shared
    if keep_dtype and is_place(target):
        whole = f"({value})" if isinstance(statement, ast.AugAssign) else value
        yield source.replaced({statement: f"{name} = {whole}.to({name}.dtype)"}), name, is_shared


def _inside(source: Source, statement: ast.AST, site: Site | None) -> Iterator[tuple[str, str, bool]]:
    """Yield in-place calls in a statement out of place: each chain, ``inplace=True`` and ``out=``; first the
    one that wrote, as only one does in ``x.mul_(2) if large else x.div_(2)``."""
    done: set[ast.AST] = set()
    at = -1 if site is None else source.at(site.line, site.column)
    calls = [node for node in walk(statement) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda call: not source.start(call) <= at < source.end(call)):
        written = None if node in done else in_place(node, source)
        if written is not None and not is_element(source, statement, written.target):
            # The inner calls of a chain are written with the outer one.
            inner: ast.expr | None = node
            while inner is not None and (inner := receiver(inner, source)) is not None:
                done.add(inner)
            yield _with_its_name(source, statement, node, *written)


def _with_its_name(
    source: Source, statement: ast.AST, call: ast.Call, value: str, written: ast.expr
) -> tuple[str, str, bool]:
    """Return a call inside a statement out of place. If the written name is read later, it is bound to the
    result: ``y = h.relu_()`` gives ``y = h = h.relu()``."""
    name = source.code(written)
    if not is_place(written):
        plain, is_shared = value, not is_fresh(written, source)
        if isinstance(written, ast.NamedExpr):
            # ``(g := x.exp().mul(2))`` for ``(g := x.exp()).mul_(2)``
            plain = value.replace(name, source.in_brackets(written.value), 1)
            plain = f"({source.code(written.target)} := {plain})"
            is_shared = not is_fresh(written.value, source)
        return source.replaced({call: plain}), "", is_shared
    is_shared = held_elsewhere(source, statement, written)
    is_read = can_bind(source, statement, written)
    if not is_read and not _is_read_around(source, statement, call, name):
        return source.replaced({call: value}), "", is_shared
    if isinstance(statement, ast.Assign) and statement.value is call:
        named = name in map(source.code, statement.targets)
        return source.replaced({call: value if named else f"{name} = {value}"}), name, is_shared
    line = source.own_line(statement)
    if isinstance(written, ast.Name) and line and not _is_within(source, call, statement, _PERHAPS):
        texts = source.inserted(statement, source.change(call, name), before=f"{name} = {value}")
        return next(texts), name, is_shared
    if isinstance(written, ast.Name) and not _is_within(source, call, statement, _SCOPES):
        return source.replaced({call: f"({name} := {value})"}), name, is_shared
    return source.replaced({call: value}), name, True


_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PERHAPS = (*_SCOPES, ast.IfExp, ast.BoolOp, ast.Compare)  # a part may not run, or runs more than once


def is_read_outside(source: Source, call: ast.Call, place: ast.expr) -> bool:
    """Return whether a place that a call is handed may be read in the call's statement outside of it, or
    later by a name that the statement doesn't bind."""
    statement, name = next(source.statements_round(call)), source.code(place)
    bound = {source.code(part) for target in targets_of(statement) for part in flat(target)}
    is_left = not isinstance(statement, ast.Return) and name not in bound
    is_read = is_left and read_later(source, statement, place)
    return is_read or _is_read_around(source, statement, call, name)


def _is_read_around(source: Source, statement: ast.AST, call: ast.Call, name: str) -> bool:
    """Return whether the statement reads a place outside of the call, too: ``h.relu_() + h``."""
    own = set(walk(call))
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and node not in own
        and source.code(node) == name
        and not (isinstance(source.parents[node], ast.Assign) and isinstance(node.ctx, ast.Store))
        for node in walk(statement)
    )


def _is_within(source: Source, node: ast.AST, outer: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    between = itertools.takewhile(lambda above: above is not outer, source.all_above(node))
    return any(isinstance(above, kinds) for above in between)
