"""Whether code outside of an object's own methods may have set one of its attributes.

``assignments`` finds what the methods of its classes set. ``encoder`` may as well have said
``posterior.scale = …``: then the one assignment of the class need not be the one that counts.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator

from .sites import is_library_path
from .syntax import tree_of


def may_set(name: str, home: str, files: Iterable[str]) -> bool:
    """Whether the program sets an attribute of this name on anything but a method's own object.

    Args:
        name: The attribute.
        home: The file of the class. Loaded modules of its project are looked at, too.
        files: Further files of the program.
    """
    return any(_sets(name, tree) for tree in _trees(name, home, files))


def _trees(word: str, home: str, files: Iterable[str]) -> Iterator[ast.Module]:
    root = os.path.join(_root(os.path.abspath(home)), "")
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    beside = [file for file in loaded if isinstance(file, str) and file.startswith(root)]
    for file in dict.fromkeys((home, *files, *beside)):
        tree = None if is_library_path(file) else tree_of(file, word)
        if tree is not None:
            yield tree


def _root(file: str) -> str:
    """The folder that a file's outermost package lies in."""
    folder = os.path.dirname(file)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _sets(name: str, tree: ast.Module) -> bool:
    own = set(_by_methods(name, tree))
    return any(node not in own and _may_be_it(name, node) for node in ast.walk(tree))


def _may_be_it(name: str, node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=attr, ctx=ast.Store()):
            return attr == name
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=attr), _]):
            return bool(attr == name)
        case _:
            return False


def _by_methods(name: str, tree: ast.Module) -> Iterator[ast.AST]:
    """What is no outsider's: ``self.name``, and ``x.name += …``, which leaves the same tensor there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            yield node.target
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.args.args:
                    yield from _on(method.args.args[0].arg, method)


def _on(owner: str, method: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == owner:
            yield node
