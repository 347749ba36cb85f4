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
from ._liveness import read_later
from ._sites import saved_spots

_SPLITTERS = frozenset(
    {"chunk", "split", "split_with_sizes", "tensor_split", "unbind", "hsplit", "vsplit", "dsplit"}
)


def propose(finding: Finding, project: Project) -> Iterator[Proposal]:
    """Copies or single views where the views were made."""
    if finding.code != "UC203":
        return
    for _, (path, source, statement) in saved_spots(finding, project):
        for text, title, hides in rewrites(source, statement):
            yield Proposal("multi-view", title, {path: text}, hides=hides)


def rewrites(source: Source, statement: cst.BaseSmallStatement) -> Iterator[tuple[str, str, str]]:
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
            base = source.code(of) if is_place(of) and read_later(source, statement, of) else ""
            yield (
                source.replaced({node: cst.parse_expression(code)}),
                f"copy the parts that `{name}` gives",
                base,
            )


def _unpacked(statement: cst.BaseSmallStatement, call: cst.Call) -> int:
    """How many names the call's value is unpacked into, 0 where it isn't."""
    if isinstance(statement, cst.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, (cst.Tuple, cst.List)) and not any(
            isinstance(e, cst.StarredElement) for e in target.elements
        ):
            return len(target.elements)
    return 0


def _bound_whole(statement: cst.BaseSmallStatement, call: cst.Call) -> bool:
    return isinstance(statement, cst.Assign) and statement.value is call
