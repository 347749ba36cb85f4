"""Reads of a name after it was bound. If there are none, an in-place write was meant for another holder of
the tensor, and binding the name would lose it."""

from __future__ import annotations

import ast

from .._syntax import For, Loop, Source, flat, is_name, names_in, walk


def read_later(source: Source, statement: ast.AST, place: ast.expr) -> bool:
    """Return whether ``place`` may be read after ``statement`` has bound it.

    Any code may read an attribute. A name counts as read if it occurs later in its function, or in the next
    turn of a loop round the statement before a line binds it. At module level any function counts, too.
    """
    if not isinstance(place, ast.Name):
        return True
    name = place.id
    scope: ast.AST = source.function(statement) or source.tree
    reach = scope
    for above in source.all_above(statement):
        if above is scope:
            break
        if isinstance(above, ast.While) and above.test is statement:
            return True  # the condition itself is evaluated in each turn
        if isinstance(above, For) and name in names_in(above.target):
            reach = above  # the loop binds the name in each turn
            break
        if isinstance(above, Loop) and _read_in_next_turn(source, above, name, statement):
            return True
    return any(
        source.function(node) not in (None, scope) or source.start(node) >= source.end(statement)
        for node in _reads(source, reach, name, statement)
    )


def _read_in_next_turn(source: Source, loop: For | ast.While, name: str, statement: ast.AST) -> bool:
    """Return whether the next turn of a loop may read a name before a line of its body binds it."""
    for part in (*([loop.test] if isinstance(loop, ast.While) else []), *loop.body):
        if _reads(source, part, name, statement):
            return True
        if any(is_name(node, name) for target in getattr(part, "targets", ()) for node in flat(target)):
            return False
    return False


def _reads(source: Source, block: ast.AST, name: str, statement: ast.AST) -> list[ast.Name]:
    """Return the reads of a name in a block outside of a statement; ``x += 1`` reads ``x``."""
    own = {id(inner) for inner in walk(statement)}
    return [
        node
        for node in walk(block)
        if isinstance(node, ast.Name)
        and node.id == name
        and id(node) not in own
        and not source.is_bound(node)
    ]
