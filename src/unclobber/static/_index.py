"""Definitions and imports of a file, and the callers of its functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from ..syntax import dotted, imported_by

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class FileIndex:
    """The names at the top of one file."""

    def __init__(self, tree: ast.Module, path: str = "") -> None:
        """Collect functions and classes of the file's top, and imports and assignments anywhere in it."""
        self.tree = tree
        self.path = path
        self.functions: dict[str, FunctionNode] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.imports: dict[str, str] = {}
        self.assigned: Counter[str] = Counter()
        """The number of assignments of each name in the file."""
        self.assigned_attributes: Counter[str] = Counter()
        """The number of assignments of each attribute in the file."""
        self.trained: set[str] = set()
        """The dotted names whose ``parameters()`` the file asks for, as for an optimizer: networks."""
        self._defined: Counter[str] = Counter()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self.assigned[node.id] += isinstance(node.ctx, ast.Store)
            elif isinstance(node, ast.Attribute):
                self.assigned_attributes[node.attr] += not isinstance(node.ctx, ast.Load)
                if node.attr in ("parameters", "named_parameters"):
                    self.trained.add(dotted(node.value))
            elif isinstance(node, FunctionNode):
                self._defined[node.name] += 1
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports |= imported_by(node)
        for statement in _top(tree.body):
            if isinstance(statement, FunctionNode):
                self.functions[statement.name] = statement
            elif isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = statement

    def full(self, node: ast.AST) -> str:
        """Return the dotted name with its head replaced by the imported name:
        ``torch.nn.functional.relu``."""
        text = dotted(node)
        head, _, tail = text.partition(".")
        head = self.imports.get(head, head)
        return f"{head}.{tail}" if tail else head

    def method(self, cls: ast.ClassDef, name: str, depth: int = 0) -> FunctionNode | None:
        """Return a method of a class, or of its bases in the file; None if there is none."""
        for statement in cls.body:
            if isinstance(statement, FunctionNode) and statement.name == name:
                return statement
        for base in cls.bases:
            above = self.classes.get(dotted(base))
            if above is not None and above is not cls and depth < 6:
                inherited = self.method(above, name, depth + 1)
                if inherited is not None:
                    return inherited
        return None

    def is_a(self, cls: ast.ClassDef, names: frozenset[str], depth: int = 0) -> bool:
        """Return whether a class has one of these bases, by the last part of its name."""
        for base in cls.bases:
            if self.full(base).rpartition(".")[2] in names:
                return True
            above = self.classes.get(dotted(base))
            if above is not None and above is not cls and depth < 6 and self.is_a(above, names, depth + 1):
                return True
        return False

    @cached_property
    def never_recorded(self) -> frozenset[str]:
        """The bare names of functions and methods that this file calls, and only under no_grad."""
        calls = list(_calls(self.tree, "", off=False))
        defined = self._defined
        unrecorded: set[str] = set()
        while True:
            more = {
                name
                for name in {called for called, _, _ in calls} & defined.keys() - unrecorded
                if defined[name] == 1
                and all(off or caller in unrecorded for called, caller, off in calls if called == name)
            }
            if not more:
                return frozenset(unrecorded)
            unrecorded |= more


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file's top, including those in its ``if`` and ``try``."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _top(statement.body)
            yield from _top(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _top(statement.body)
            for handler in statement.handlers:
                yield from _top(handler.body)


def _calls(node: ast.AST, caller: str, *, off: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield each call: the bare name, the calling function, whether gradients are off there."""
    if isinstance(node, FunctionNode):
        off = is_off(node.decorator_list)
        caller = node.name
    elif isinstance(node, (ast.With, ast.AsyncWith)) and is_off([item.context_expr for item in node.items]):
        off = True
    elif isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name:
            yield name, caller, off
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, caller, off=off)


def is_off(expressions: list[ast.expr]) -> bool:
    """Return whether decorators or the items of a ``with`` turn gradients off."""
    return any(mode_of(expression) for expression in expressions)


def mode_of(node: ast.expr) -> int | None:
    """Return the mode that a decorator or context turns on: 1 no_grad, 2 inference mode, 0 gradients; None if
    it changes none."""
    call = node if isinstance(node, ast.Call) else None
    name = dotted(call.func if call is not None else node).rpartition(".")[2]
    switch = True
    if call is not None:
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "mode")]
        if given:
            # `set_grad_enabled(flag)` may be on: suspect writes as if it were.
            if not isinstance(given[0], ast.Constant):
                return 0 if name in ("enable_grad", "set_grad_enabled") else None
            switch = bool(given[0].value)
    if name == "no_grad":
        return 1
    if name == "inference_mode":
        return 2 if switch else None
    if name == "enable_grad":
        return 0
    if name == "set_grad_enabled":
        return 0 if switch else 1
    return None


def is_static(function: FunctionNode) -> bool:
    """Return whether a method gets no object."""
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
        for decorator in function.decorator_list
    )


def is_property(function: FunctionNode) -> bool:
    """Return whether a method is read as an attribute."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)
