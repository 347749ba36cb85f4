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
from .._syntax import Comprehension, Source, flat, is_name, is_place, names_in, root_place, walk
from ..project import Project
from ._aliases import can_bind, held_elsewhere, is_element, is_local_to, read_later, shared_name
from ._blocks import bound_by
from ._fresh import is_fresh
from ._inplace import in_place, uses_result, written_by
from ._sites import steps_along_gradient, write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statements in their out-of-place forms."""
    for write, (path, source, statement) in write_statements(finding, project):
        if finding.code == "UC201" and steps_along_gradient(statement):
            continue  # a new tensor is no leaf: its `.grad` would stay empty from the next step on
        is_read_again = finding.variant == "recomputed"  # so no name may be bound to the result
        for text, name, shared in () if is_read_again else bound(source, statement):
            yield Candidate(f"bind `{name}` to the new values", {path: text}, guess=True, shared_name=shared)
        is_result = finding.code == "UC201" and uses_result(source, statement)  # and no more is meant
        narrow = finding.saved is not None and finding.saved.dtype in _NARROW
        for text, target, is_shared in rewrites(source, statement, write.site, keep_dtype=narrow):
            if finding.code == "UC209" and write.operation in torch_table().overwrites_all:
                continue  # what is filled in its place would have no batch, either
            scope = source.function(statement)
            if scope is not None and target.isidentifier() and not is_local_to(source, scope, target):
                continue  # a global's name would become the function's own, without a value
            if target and (is_read_again or (is_result and "." in target)):
                continue  # a module's parameter can't be bound to a new tensor
            title = f"write {f'`{target}`' if target else 'the result'} into a new tensor"
            yield Candidate(title, {path: text}, shared_name=target or "the tensor" if is_shared else "")
        for node in walk(statement) if is_result else ():
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
    """Yield in-place calls in a statement out of place: each chain, ``inplace=True`` and ``out=``; only the
    one that wrote if the site is a call."""
    done: set[ast.AST] = set()
    at = None if site is None else source.call_at(site)
    wrote = None if at is None else in_place(at, source)
    for node in (node for node in walk(statement) if isinstance(node, ast.Call)):
        written = in_place(node, source)
        if written is None or written.target in done:  # by an outer call of the chain
            continue
        done.add(written.target)
        is_it = at is None or (wrote is not None and written.target is wrote.target)
        if is_it and not is_element(source, statement, written.target):
            yield from _with_its_name(source, statement, node, *written)


def _with_its_name(
    source: Source, statement: ast.AST, call: ast.Call, value: str, written: ast.expr
) -> Iterator[tuple[str, str, bool]]:
    """Yield a call inside a statement out of place. If what it writes is read outside of it, the result is
    bound to its name: ``y = h.relu_()`` gives ``y = h = h.relu()``. Nothing if that changes the order."""
    name, is_variable = source.code(written), isinstance(written, ast.Name)
    is_entry = isinstance(written, ast.Subscript) and isinstance(getattr(written.slice, "value", None), str)
    place = written if is_entry else root_place(written)  # `s["h"]` is no tensor's part
    is_shared = held_elsewhere(source, statement, written) and not is_fresh(written, source)
    if isinstance(written, ast.NamedExpr):
        # ``(g := x.exp().mul(2))`` for ``(g := x.exp()).mul_(2)``
        plain = value.replace(name, source.in_brackets(written.value), 1)
        text = source.replaced({call: f"({source.code(written.target)} := {plain})"})
        yield text, "", not is_fresh(written.value, source)
    elif place is None or not is_read_outside(source, call, place):
        yield source.replaced({call: value}), name if name in bound_by(source, statement) else "", is_shared
    elif place is written and (is_variable or can_bind(source, statement, place)):
        computed = _computed_before(source, statement, call)
        within = [*itertools.takewhile(lambda above: above is not statement, source.all_above(call))]
        may_move = not (computed or any(isinstance(above, _PERHAPS) for above in within))
        around = _read_around(source, statement, call, name)
        is_looked_up = any(source.start(read) < source.start(call) for read in around)  # `h + h.mul_(2)`
        is_apart = any(isinstance(above, ast.Lambda | ast.comprehension) for above in within)
        if isinstance(statement, ast.Assign) and statement.value is call:
            yield source.replaced({call: f"{name} = {value}"}), name, is_shared
        elif may_move and source.own_line(statement):
            texts = source.inserted(statement, source.change(call, name), before=f"{name} = {value}")
            yield next(texts), name, is_shared
        elif is_variable and not (is_looked_up or is_apart):
            yield source.replaced({call: f"({name} := {value})"}), name, is_shared


_PERHAPS = ast.Lambda | Comprehension | ast.IfExp | ast.BoolOp | ast.Compare
"""Expressions of which a part may not run, or runs more than once."""
_LOOKED_UP = ast.Name | ast.Attribute | ast.Constant | ast.Tuple | ast.List | ast.Starred
"""Expressions that compute nothing, so that what is written later is seen by what reads them."""


def is_read_outside(source: Source, call: ast.Call, place: ast.expr) -> bool:
    """Return whether a place that a call is handed may be read in the call's statement outside of it, or
    later by a name that the statement doesn't bind."""
    statement, name = next(source.statements_round(call)), source.code(place)
    reads = (node for node in walk(call) if is_name(node, name))
    is_used = any(getattr(source.parents[read], "arg", "") != "out" for read in reads)  # which is written
    is_left = name not in bound_by(source, statement) and read_later(source, call, place, is_used=is_used)
    return is_left or bool(_read_around(source, statement, call, name))


def _read_around(source: Source, statement: ast.AST, call: ast.Call, name: str) -> list[ast.AST]:
    """Return where a statement reads a place outside of a call, ``h.relu_() + h``, and not before it."""
    parts = (call, *_computed_before(source, statement, call))
    done = {node for part in parts if not isinstance(part, ast.Subscript) for node in walk(part)}
    places = (node for node in walk(statement) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript))
    reads = (node for node in places if isinstance(node.ctx, ast.Load) and node not in done)
    return [node for node in reads if source.code(node) == name]


def _computed_before(source: Source, statement: ast.AST, call: ast.Call) -> list[ast.expr]:
    """Return the operations of a statement that are done where a call in it begins; an index may copy."""
    parts = (node for node in walk(statement) if isinstance(node, ast.expr))
    read = (part for part in parts if names_in(getattr(part, "slice", part)))
    computed = (part for part in read if not isinstance(part, _LOOKED_UP))
    return [part for part in computed if source.end(part) <= source.start(call)]
