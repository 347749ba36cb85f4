"""Fixer: take views one by one.

``a, b = x.chunk(2)`` gives views that torch ties together, and so it refuses writes to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from ...syntax import last_name, torch_table
from .._candidate import Candidate
from .._syntax import For, Source, calls, is_name, is_place, method_call, root_name, single_target, walk
from ..project import Project
from ._aliases import can_bind, held_elsewhere
from ._fresh import is_fresh
from ._inplace import written_by
from ._sites import callers, saved_statements, write_statements
from .clone_saved import cloned

_ITERATORS = ("enumerate", "zip", "reversed")


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield copies or single views where the views were made, or where a loop over a tensor makes them."""
    for _, (path, source, statement) in saved_statements(finding, project):
        writers = (writer for _, (other, _, writer) in write_statements(finding, project) if other == path)
        reads = [read for writer in writers for read in _saved_reads(source, writer)]
        for text, title, shared, guess in rewrites(source, statement, *reads):
            yield Candidate(title, {path: text}, shared_name=shared, hides_nothing=not shared, guess=guess)
    made = None if finding.saved is None else finding.saved.site
    # A write moves the version counter of the result that the one to the view before saved.
    names = [write.operation.partition("(")[0].rstrip("_") for write in finding.writes]
    saves_result = any(each.results for name in names for each in torch_table().in_place(f"{name}_"))
    for path, source, statement in callers(project, *finding.writes, finding.saved):
        for iterated in _iterated(source, statement):
            if made is not None and not made.line <= iterated.lineno <= made.end_line:
                continue  # a loop around what made them: `q, k = qk` in one over modules
            title = f"index the parts of `{source.code(iterated)}`, so that each is a view of its own"
            name = source.code(_unbound(iterated) or iterated)
            text = source.replaced({iterated: f"[{name}[n] for n in range(len({name}))]"})
            yield Candidate(title, {path: text}, guess=made is None or saves_result)


def _saved_reads(source: Source, statement: ast.AST) -> Iterator[ast.expr]:
    """Yield the reads of what a statement writes that its own operations save: `t` of `t /= t.norm()`."""
    written = written_by(statement, source)
    target = source.code(written.target) if written else ""
    for call in walk(statement):
        if isinstance(call, ast.Call) and torch_table().saves_first(last_name(call.func)):
            of_torch = root_name(call.func) in source.names_from_torch
            firsts = call.args[:1] if of_torch else [getattr(call.func, "value", call.func)]
            yield from (read for read in firsts if source.code(read) == target)


def _iterated(source: Source, statement: ast.AST) -> Iterator[ast.expr]:
    for node in (*source.all_above(statement), *walk(statement)):
        if isinstance(node, For | ast.comprehension):
            yield from _sequences(node.iter)


def _sequences(iterable: ast.expr) -> Iterator[ast.expr]:
    # `h` of `h`, `enumerate(h)` and `zip(h, g.unbind())`
    if is_place(iterable) or _unbound(iterable) is not None:
        yield iterable
    elif isinstance(iterable, ast.Call) and is_name(iterable.func, *_ITERATORS):
        for argument in iterable.args:
            yield from _sequences(argument)


def _unbound(node: ast.expr) -> ast.expr | None:  # `h` of `h.unbind()`
    of = method_call(node, "unbind")
    return None if of is None or node.args or node.keywords or not is_place(of) else of  # type: ignore[attr-defined]


def single(source: Source, call: ast.Call, count: int) -> str | None:
    """Return the parts that a call gives, each as a view of its own: ``h.narrow(1, 0, 2), h.narrow(1, 2,
    2)``; None if the sizes are not written out, or if the tensor taken apart has no name."""
    assert isinstance(call.func, ast.Attribute)
    kind, of, arguments = call.func.attr, call.func.value, list(call.args)
    # The tensor of `torch.chunk(x, 2)` is its first argument.
    if root_name(of) in source.names_from_torch and arguments:
        of = arguments.pop(0)
    whole = of.value if isinstance(of, ast.Subscript) and _numbers(of.slice) is not None else of  # `x[-1]`
    if not is_place(whole) or any(keyword.arg != "dim" for keyword in call.keywords):
        return None
    values = [_numbers(value) for value in (*arguments, *(keyword.value for keyword in call.keywords))]
    if None in values:
        return None
    size = None if kind == "unbind" else values.pop(0) if values else []
    dim = values[0] if values else 0
    if not isinstance(dim, int):
        return None
    x = source.code(of)
    if kind == "unbind":
        parts = [f"{x}[{n}]" if dim == 0 else f"{x}.select({dim}, {n})" for n in range(count)]
    elif kind == "chunk" and size == count:
        parted = f"{x}.unflatten({dim}, ({count}, -1))"
        # unflatten adds a dimension, which a negative one counts as well.
        parts = [f"{parted}.select({dim if dim >= 0 else dim - 1}, {n})" for n in range(count)]
    elif kind in ("split", "split_with_sizes"):
        sizes = [size] * count if isinstance(size, int) else size or []
        if len(sizes) != count:
            return None
        parts = [f"{x}.narrow({dim}, {sum(sizes[:n])}, {sizes[n]})" for n in range(count)]
        if isinstance(size, int):  # the last part may be smaller
            before, behind = (":, " * dim, "") if dim >= 0 else ("..., ", ", :" * (-dim - 1))
            parts[-1] = f"{x}[{before}{size * (count - 1)}:{behind}]"
    else:
        return None
    return ", ".join(parts)


def _numbers(value: ast.expr) -> int | list[int] | None:
    """Return a number that is written out, or a list of such, or None."""
    try:
        number = ast.literal_eval(value)
    except ValueError:
        return None
    if isinstance(number, (list, tuple)) and all(isinstance(part, int) for part in number):
        return list(number)
    return number if isinstance(number, int) else None


def rewrites(source: Source, statement: ast.AST, *saved: ast.expr) -> Iterator[tuple[str, str, str, bool]]:
    """Yield texts, titles, code that each one's writes miss, and whether it guesses (``chunk`` is even).
    The reads by which a part is ``saved`` before it is written get copies."""
    copies: dict[ast.AST, str] = {read: cloned(source, read) for read in saved}
    also = f", and clone `{source.code(saved[0])}` before it is saved" if saved else ""
    for node in calls(statement, torch_table().returns_several_views):
        if not isinstance(node.func, ast.Attribute):
            continue
        of = node.func.value
        whole = isinstance(statement, ast.Assign) and statement.value is node
        targets = getattr(single_target(statement), "elts", ()) if whole else ()
        count = 0 if any(isinstance(part, ast.Starred) for part in targets) else len(targets)
        if count and (parts := single(source, node, count)):
            title = "index each part, so that each is a view of its own"
            yield source.replaced({node: parts, **copies}), f"{title}{also}", "", node.func.attr == "chunk"
        if whole:
            code = f"[part.clone() for part in {source.code(node)}]"
            own = is_fresh(of, source)
            if is_place(of):
                own = not (can_bind(source, statement, of) or held_elsewhere(source, statement, of))
            title = f"copy the parts that `{node.func.attr}` gives{also}"
            yield source.replaced({node: code, **copies}), title, "" if own else source.code(of), False
