"""Containers of tensors in the source: whether their elements stay, and which one a loop has come to."""

from __future__ import annotations

import ast

from .places import Place

_READERS = frozenset({"enumerate", "zip", "reversed", "iter", "len", "list", "tuple"})
"""Functions that don't change a container and don't pass it on."""


def only_read(name: str, place: Place) -> bool:
    """Return whether no code in the file can change the elements of the container that the variable holds."""
    for parent in ast.walk(place.source.tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Name) and node.id == name and not _leaves_as_it_is(parent, node):
                return False
    return True


def _leaves_as_it_is(parent: ast.AST, node: ast.Name) -> bool:
    """Return whether ``parent`` only reads or rebinds the container ``node``; False if the use is unknown."""
    match parent:
        case ast.Subscript(ctx=ast.Load()) | ast.Tuple(ctx=ast.Store()):
            return True
        case ast.For(iter=read) | ast.comprehension(iter=read) | ast.Return(value=read):
            return read is node
        case ast.Call(func=ast.Name(id=called)):
            return called in _READERS
        case ast.Assign(targets=[target]):
            return target is node or isinstance(target, (ast.Tuple, ast.List))
        case _:
            return False


def taken_from(node: ast.expr, position: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]]:
    """Return the container and position that a loop variable is an element of.

    Looks through ``enumerate`` and ``zip``: for ``for s, part in zip((1., 2.), h.split(2, 1))`` it is the
    split (tests/programs/UC203/zip_chunks.py).
    """
    while True:
        match node:
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if position[:1] == (1,):
                node, position = inner, position[1:]
            case ast.Call(func=ast.Name(id="zip"), args=args) if position and position[0] < len(args):
                node, position = args[position[0]], position[1:]
            case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple" | "iter"), args=[inner]):
                node = inner
            case _:
                return node, position
