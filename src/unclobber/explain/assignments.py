"""The code that sets an object's attribute: methods of its classes, and code outside them.

``assignments`` finds what the methods of the classes set. ``may_set`` looks for writers outside: if a
function says ``posterior.scale = …``, the assignment in the class need not be the one that counts.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator
from types import CodeType

from ..source import ParsedSource, function_of, is_library
from ..syntax import dotted, last_name


def assignments(kind: type, name: str) -> Iterator[tuple[ast.expr, ast.stmt, CodeType, ParsedSource]]:
    """Yield every ``self.name = value`` in the program's classes that make ``kind``, except ``= None``."""
    for base in kind.__mro__:
        for member in list(vars(base).values()):
            function = function_of(
                member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            )
            if function is None or is_library(function.__code__):
                continue
            source = ParsedSource.of(function.__code__)
            scope = None if source is None else source.scope(function.__code__)
            if source is None or scope is None or isinstance(scope, ast.Module) or not scope.args.args:
                continue
            for value, statement in _set_on(scope.args.args[0].arg, name, scope):
                yield value, statement, function.__code__, source


def _set_on(owner: str, name: str, scope: ast.AST) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """Yield the values that ``scope`` sets or registers on ``owner.name``, each with its statement."""
    wanted = f"{owner}.{name}"
    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                targets = [dotted(part) for part in target.elts] if isinstance(target, ast.Tuple) else []
                if dotted(target) == wanted:
                    if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                        yield node.value, node
                elif wanted in targets:
                    parallel = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(targets)
                    index = targets.index(wanted)
                    yield (node.value.elts[index] if parallel else node.value), node  # type: ignore[attr-defined]
        match node:
            case ast.Expr(value=ast.Call(func=called, args=[ast.Constant(value=attr), value, *_])):
                if attr == name and last_name(called) in ("register_parameter", "register_buffer"):
                    yield value, node


def may_set(name: str, home: str, files: Iterable[str]) -> bool:
    """Return whether the program sets an attribute of this name on anything but a method's own object.

    Args:
        home: The file of the class. Loaded modules of its project are looked at, too.
        files: Further files of the program.
    """
    for tree in _trees(name, home, files):
        own = set(_by_methods(tree))
        if any(node not in own and _may_be_it(name, node) for node in ast.walk(tree)):
            return True
    return False


def _trees(word: str, home: str, files: Iterable[str]) -> Iterator[ast.Module]:
    """Yield the trees of the program's files that contain ``word``: the class's, the given ones and loaded
    modules of its project."""
    root = os.path.join(_root(os.path.abspath(home)), "")
    # A copy, because another thread may import a module meanwhile.
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    neighbours = [file for file in loaded if isinstance(file, str) and file.startswith(root)]
    for file in dict.fromkeys((home, *files, *neighbours)):
        source = None if is_library(file) else ParsedSource.in_file(file, word)
        if source is not None:
            yield source.tree


def _root(file: str) -> str:
    folder = os.path.dirname(file)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def _may_be_it(name: str, node: ast.AST) -> bool:
    """Return whether the node sets an attribute of this name, by assignment or ``setattr``."""
    match node:
        case ast.Attribute(attr=attr, ctx=ast.Store()):
            return attr == name
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=attr), _]):
            return bool(attr == name)
        case _:
            return False


def _by_methods(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the attribute nodes that can't replace a tensor from outside: ``self.name``, and ``+=``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            yield node.target
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.args.args:
                    yield from (
                        part
                        for part in ast.walk(method)
                        if isinstance(part, ast.Attribute) and dotted(part.value) == method.args.args[0].arg
                    )
