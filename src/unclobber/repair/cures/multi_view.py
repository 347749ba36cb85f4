"""Take the views one by one.

``a, b = x.chunk(2)`` gives views that torch ties together, and so it refuses writes to them.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...model import Finding
from .._project import Project
from .._proposal import Proposal
from .._syntax import Source, is_place, walk
from ._aliases import held_elsewhere
from ._fresh import is_fresh
from ._liveness import read_later
from ._sites import callers, saved_spots

_SPLITTERS = frozenset(
    {"chunk", "split", "split_with_sizes", "tensor_split", "unbind", "hsplit", "vsplit", "dsplit"}
)


_ITERATORS = ("enumerate", "zip", "reversed")


def propose(finding: Finding, project: Project) -> Iterator[Proposal]:
    """Copies or single views where the views were made, or where a loop over a tensor makes them."""
    if finding.code != "UC203":
        return
    for _, (path, source, statement) in saved_spots(finding, project):
        for text, title, hides in rewrites(source, statement):
            yield Proposal("multi-view", title, {path: text}, hides=hides)
    seen: set[int] = set()
    places = [*(write.site for write in finding.writes), finding.saved.site if finding.saved else None]
    for site in places:
        for (path, source, statement), _ in callers(site, project) if site is not None else ():
            for iterated in _iterated(source, statement):
                if id(iterated) not in seen:
                    seen.add(id(iterated))
                    title = f"index the parts of `{source.code(iterated)}`, so that each is a view of its own"
                    yield Proposal("multi-view", title, {path: indexed(source, iterated)})


def _iterated(source: Source, statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What the loops round a statement, and the comprehensions in it, take the elements of."""
    for loop in source.all_above(statement):
        if isinstance(loop, cst.For):
            yield from _sequences(loop.iter)
    for node in walk(statement):
        if isinstance(node, cst.CompFor):
            yield from _sequences(node.iter)


def _sequences(iterable: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The tensors that a loop may be over: ``h`` of ``h``, ``enumerate(h)`` and ``zip(h, g)``."""
    if is_place(iterable):
        yield iterable
    elif isinstance(iterable, cst.Call) and getattr(iterable.func, "value", "") in _ITERATORS:
        for argument in iterable.args:
            yield from _sequences(argument.value)


def indexed(source: Source, tensor: cst.BaseExpression) -> str:
    """The text with a list of single views in a tensor's place."""
    name = source.code(tensor)
    return source.replaced({tensor: cst.parse_expression(f"[{name}[n] for n in range(len({name}))]")})


def rewrites(source: Source, statement: cst.CSTNode) -> Iterator[tuple[str, str, str]]:
    """New texts for one statement that makes several views, with what no longer sees writes to them."""
    for node in walk(statement):
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            continue
        name = node.func.attr.value
        if name not in _SPLITTERS:
            continue
        of = node.func.value
        count = _unpacked(statement, node)
        if name == "unbind" and count and is_place(of) and not node.args:
            single = ", ".join(f"{source.code(of)}[{number}]" for number in range(count))
            yield (
                source.replaced({node: cst.parse_expression(single)}),
                "index each part, so that each is a view of its own",
                "",
            )
        if _bound_whole(statement, node):
            code = f"[part.clone() for part in {source.code(node)}]"
            shared = not is_fresh(of, source)
            if is_place(of):
                shared = read_later(source, statement, of) or held_elsewhere(source, statement, of)
            base = source.code(of) if shared else ""
            yield (
                source.replaced({node: cst.parse_expression(code)}),
                f"copy the parts that `{name}` gives",
                base,
            )


def _unpacked(statement: cst.CSTNode, call: cst.Call) -> int:
    """How many names the call's value is unpacked into, 0 where it isn't."""
    if isinstance(statement, cst.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, (cst.Tuple, cst.List)) and not any(
            isinstance(e, cst.StarredElement) for e in target.elements
        ):
            return len(target.elements)
    return 0


def _bound_whole(statement: cst.CSTNode, call: cst.Call) -> bool:
    return isinstance(statement, cst.Assign) and statement.value is call
