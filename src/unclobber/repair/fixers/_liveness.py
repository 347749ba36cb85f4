"""Reads of a name after it was bound. If there are none, an in-place write was meant for another holder of
the tensor, and binding the name would lose it."""

from __future__ import annotations

import libcst as cst

from .._syntax import Source, names_in, walk


def read_later(source: Source, statement: cst.CSTNode, place: cst.BaseExpression) -> bool:
    """Return whether ``place`` may be read after ``statement`` has bound it.

    Any code may read an attribute. A name counts as read if it occurs later in its function, or anywhere
    in a loop round the statement that doesn't bind it itself. At module level any function counts, too.
    """
    if not isinstance(place, cst.Name):
        return True
    name = place.value
    scope: cst.CSTNode = source.above(statement, cst.FunctionDef) or source.module
    reach: cst.CSTNode = scope
    for above in source.all_above(statement):
        if above is scope:
            break
        if isinstance(above, cst.While) and above.test is statement:
            return True  # the condition itself is evaluated in each turn
        if isinstance(above, cst.For) and name in names_in(above.target):
            reach = above  # the loop binds the name in each turn
            break
        if isinstance(above, (cst.For, cst.While)) and any(
            node is not statement and _reads(source, node, name) for node in _outside(above.body, statement)
        ):
            return True
    after = source.positions[statement].end
    for node in _outside(reach, statement):
        if not _reads(source, node, name):
            continue
        inner = source.above(node, cst.FunctionDef)
        elsewhere = inner is not None and inner is not scope
        if elsewhere or source.start(node) >= (after.line, after.column):
            return True
    return False


def _outside(node: cst.CSTNode, statement: cst.CSTNode) -> list[cst.CSTNode]:
    own = {id(inner) for inner in walk(statement)}
    return [inner for inner in walk(node) if id(inner) not in own]


def _reads(source: Source, node: cst.CSTNode, name: str) -> bool:
    """Return whether a node reads a name; binding it, or a keyword or attribute of that name, is no read."""
    if not isinstance(node, cst.Name) or node.value != name:
        return False
    parent = source.parents.get(node)
    if isinstance(parent, cst.Attribute) and parent.attr is node:
        return False
    if isinstance(parent, cst.Arg) and parent.keyword is node:
        return False
    return not (
        isinstance(parent, (cst.AssignTarget, cst.Param, cst.For, cst.CompFor)) and _is_target(parent, node)
    )


def _is_target(parent: cst.CSTNode, node: cst.Name) -> bool:
    return getattr(parent, "target", getattr(parent, "name", None)) is node
