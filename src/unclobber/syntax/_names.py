"""Names in source and names of operations."""

from __future__ import annotations

import ast


def dotted(node: ast.AST) -> str:
    """Return ``self.net.weight`` for such an expression, empty for any other.

    Example:
        >>> dotted(ast.parse("a.b.c", mode="eval").body), dotted(ast.parse("a[0].b", mode="eval").body)
        ('a.b.c', '')
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def last_name(node: ast.AST) -> str:  # `weight` for `self.net.weight` and for `f(x).weight`
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def imported_by(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Return the names that an import binds, with their full names.

    Example:
        >>> imported_by(ast.parse("import torch.nn.functional as F, os.path").body[0])
        {'F': 'torch.nn.functional', 'os': 'os'}
        >>> imported_by(ast.parse("from ..nets import Net as N").body[0])
        {'N': '..nets.Net'}
        >>> imported_by(ast.parse("from . import nets").body[0])
        {'nets': '.nets'}
    """
    if isinstance(node, ast.ImportFrom):
        home = "." * node.level + (f"{node.module}." if node.module else "")
        return {alias.asname or alias.name: f"{home}{alias.name}" for alias in node.names}
    roots = {alias: alias.name.partition(".")[0] for alias in node.names}
    return {alias.asname or root: alias.name if alias.asname else root for alias, root in roots.items()}


def is_in_place(name: str) -> bool:
    """Return whether an operation of this name writes to its tensor, by torch's convention.

    Example:
        >>> is_in_place("add_"), is_in_place("add"), is_in_place("__add__")
        (True, False, False)
    """
    return name.endswith("_") and not name.endswith("__")


def out_of_place(name: str) -> str:
    return name[:-1] if is_in_place(name) else name
