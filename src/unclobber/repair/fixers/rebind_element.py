"""Fixer: write a list's or dict's element into a new tensor, ``outs[i] += x`` as ``outs[i] = outs[i] + x``;
or build a new list, ``for p in ps: p.mul_(2)`` as ``ps = [p.mul(2) for p in ps]``.

The edit assigns the container's entry, so a tensor in the container's place gains nothing: there the
assignment is a write, too. The text doesn't show which of the two it is; the proof does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...model import Finding
from .._candidate import Candidate
from .._syntax import Comprehension, Source, flat, is_constant, is_name, is_place, method_call, names_in, walk
from ..project import Project
from ._aliases import read_later, shared_name, side_by_side
from ._fresh import is_container
from ._inplace import written_by
from ._sites import write_statements


def propose(finding: Finding, project: Project) -> Iterator[Candidate]:
    """Yield the writing statements with a new tensor in the element, or a new list or dict."""
    if finding.code == "UC301":
        return
    made = finding.saved.site if finding.code == "UC203" and finding.saved is not None else None
    for _, (path, source, statement) in write_statements(finding, project):
        for text, name, gone in rebuilt(source, statement):
            # A loop that makes views goes over a tensor, which would become a list.
            if made is None or made.line != getattr(source.parents[statement], "lineno", None):
                yield Candidate(f"build a new `{name}`", {path: text}, shared_name=name, unbinds=gone)
        for text, element in rewrites(source, statement):
            title = f"put a new tensor in the place of `{source.code(element)}`"
            held = shared_name(source, statement, element)
            guess = not is_container(source, statement, element.value)
            yield Candidate(title, {path: text}, shared_name=held, guess=guess)


def rewrites(source: Source, statement: ast.AST) -> Iterator[tuple[str, ast.Subscript]]:
    written = written_by(statement, source)
    if written is not None and isinstance(written.target, ast.Subscript) and _is_element(written.target):
        yield source.replaced({statement: f"{source.code(written.target)} = {written.value}"}), written.target


def rebuilt(source: Source, statement: ast.AST) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield ``for p, g in zip(ps, gs): p -= g`` as ``ps = [p - g for p, g in zip(ps, gs)]``, and a loop over
    a dict's items as its comprehension.

    Each comes with the name that is bound, and with the loop's names that no longer are.
    """
    loop = source.parents.get(statement)
    written = written_by(statement, source)
    if not isinstance(loop, ast.For) or len(loop.body) != 1 or loop.orelse or written is None:
        return
    value, target = written
    names = {part.id for part in flat(loop.target) if isinstance(part, ast.Name)}
    if any(_is_variable(source, node) for node in walk(source.function(loop) or source.tree)
           if is_name(node, *names) and loop not in source.all_above(node)):  # fmt: skip
        return
    for place, iterable in side_by_side(loop.target, loop.iter):
        items, values = method_call(iterable, "items"), method_call(iterable, "values")
        container, element = items or values or iterable, place
        if items is not None and isinstance(place, ast.Tuple) and len(place.elts) == 2:
            element = place.elts[1]
        is_written = is_place(container) and source.code(element) == source.code(target)
        if not is_written or not read_later(source, loop, container):
            continue
        name = source.code(container)
        each = f"for {source.code(loop.target)} in {source.code(loop.iter)}"
        code = f"[{value} {each}]"
        if items is not None:
            code = f"{{{source.code(place.elts[0])}: {value} {each}}}"  # type: ignore[attr-defined]
        elif values is not None:
            each = f"for key, {source.in_brackets(loop.target)} in zip({name}, {source.code(loop.iter)})"
            code = f"{{key: {value} {each}}}"
        yield source.replaced({loop: f"{name} = {code}"}), name, frozenset(names)


def _is_variable(source: Source, name: ast.AST) -> bool:
    round_it = (above for above in source.all_above(name) if isinstance(above, Comprehension))
    own = (names_in(part.target) for above in round_it for part in above.generators)
    return not any(name.id in names for names in own)  # type: ignore[attr-defined]


_EFFECTS = (
    ast.Call | ast.Await | ast.Yield | ast.NamedExpr | Comprehension | ast.Lambda | ast.Compare | ast.Slice
)
"""Expressions that are no plain index: only a tensor has a mask as an index, which a comparison gives."""


def _is_element(node: ast.expr) -> bool:  # reading it twice has no effect of its own
    if not isinstance(node, ast.Subscript) or not (is_place(node.value) or _is_element(node.value)):
        return False
    return not any(isinstance(p, _EFFECTS) or is_constant(p, ...) for p in walk(node.slice))
