"""The parameters that a Triton kernel stores to, read from the kernel's own syntax tree.

Triton compiles Python functions, so the tree says what runs. A value is an address into parameter ``p`` if
arithmetic, assignments or a helper's result made it from ``p``; a load ends that. A kernel stores to the
first argument of ``tl.store`` and of each ``tl.atomic_…``, and to a descriptor by its method ``store``. What
can't be read counts as a store, because a write that changes no saved value is never reported.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import weakref
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from ...source import ParsedSource

_MOST_VARIANTS = 64  # variants that are kept of a kernel, by the numbers that decide its branches
_Parameters = frozenset[str]
_NONE: _Parameters = frozenset()


def function_of(kernel: Any) -> FunctionType:
    while not isinstance(kernel, FunctionType):
        kernel = kernel.fn
    return kernel  # `JITFunction`, `Autotuner`, `Heuristics`


class KernelSource:
    """The source of one kernel, and the stores of each variant of it."""

    def __init__(self, function: FunctionType) -> None:
        """Find the definition of ``function`` in its file; LookupError if its text is not there."""
        source, first = ParsedSource.of(function.__code__), function.__code__.co_firstlineno
        nodes = () if source is None else ast.walk(source.tree)
        for node in (node for node in nodes if isinstance(node, ast.FunctionDef)):
            # The interpreter's function begins behind the decorators, others at the first.
            if first in (node.lineno, *(decorator.lineno for decorator in node.decorator_list)):
                self.definition = node
                break
        else:
            raise LookupError(function.__qualname__)
        tests = [node.test for node in ast.walk(self.definition) if isinstance(node, ast.If)]
        names = [node for node in ast.walk(self.definition) if isinstance(node, ast.Name)]
        assigned = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        self.decisive = {
            node.id for test in tests for node in ast.walk(test) if isinstance(node, ast.Name)
        } - assigned
        """Names in the tests of branches that keep the value they were launched with."""
        self._variants: dict[Any, _Reader] = {}

    def read(self, function: FunctionType, arguments: Mapping[str, Any]) -> _Reader:
        """Return what the kernel does when it is launched with these arguments, by parameter."""
        numbers = {
            name: value
            for name, value in arguments.items()
            if name in self.decisive and isinstance(value, bool | int | str | None)
        }
        # With the type, because 1 equals True and may decide otherwise.
        key = tuple(sorted((name, type(value).__name__, repr(value)) for name, value in numbers.items()))
        reader = self._variants.get(key)
        if reader is None:
            if len(self._variants) >= _MOST_VARIANTS:
                self._variants.clear()
            reader = self._variants[key] = _Reader(function, self.definition, numbers)
        return reader


_sources: weakref.WeakKeyDictionary[FunctionType, KernelSource] = weakref.WeakKeyDictionary()


def stores_of(function: FunctionType, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Return the parameters that a launch with these arguments may store to, each with the line that stores.

    Lines are 1-based in the kernel's file; the kernel's own first line if several store, because the launch
    doesn't show which of them ran. A parameter that goes where nothing can be read has the line from which it
    goes there.

    Raises:
        LookupError: The kernel's source is not there.
    """
    reader = _read(function, arguments)
    return {
        parameter: min(lines) if len(lines) == 1 else reader.first
        for parameter, lines in reader.stores.items()
    }


def _read(function: FunctionType, arguments: Mapping[str, Any]) -> _Reader:
    if function not in _sources:
        _sources[function] = KernelSource(function)
    return _sources[function].read(function, arguments)


class _Reader:
    """A pass over a kernel's statements, which follows addresses through its variables."""

    def __init__(
        self, function: FunctionType, definition: ast.FunctionDef, numbers: Mapping[str, Any]
    ) -> None:
        """Read ``definition``, with the values of ``numbers`` in the tests of its branches."""
        self.first = definition.lineno
        self.stores: dict[str, set[int]] = {}
        """Lines of the statements that store to each parameter, or call a helper that does."""
        self.returned = _NONE  # parameters into which the kernel's result may be an address
        self._numbers = numbers
        self._globals = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        arguments = (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs)
        self.parameters = [argument.arg for argument in arguments]
        self._variables = {name: frozenset((name,)) for name in self.parameters}
        # A loop can carry an address from its end to its start, and through a second variable from there.
        for _ in range(3):
            self._block(definition.body)

    def _block(self, statements: list[ast.stmt]) -> None:
        """Follow the statements in their order; of a decided branch only the one that runs."""
        for statement in statements:
            match statement:
                case ast.If():
                    decided = self._decided(statement.test)
                    if decided is not False:
                        self._block(statement.body)
                    if decided is not True:
                        self._block(statement.orelse)
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)
                case ast.AugAssign(target=target, value=value):
                    self._assign(target, value)
                case ast.Return(value=ast.expr() as value):
                    self.returned |= self._value(value)
                case ast.Expr(value=value):
                    self._value(value)
                case ast.For() | ast.While():
                    self._block([*statement.body, *statement.orelse])
                case ast.With():
                    self._block(statement.body)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        """Add what ``value`` points into to the target's; a variable may hold either at a later line."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for left, right in zip(target.elts, value.elts, strict=True):
                self._assign(left, right)
            return
        made = self._value(value)
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self._variables[name.id] = self._variables.get(name.id, _NONE) | made

    def _decided(self, test: ast.expr) -> bool | None:
        """Return what a branch's test is in this launch; None if it depends on more than plain numbers."""
        free = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        if not free <= self._numbers.keys() or any(isinstance(node, ast.Call) for node in ast.walk(test)):
            return None
        try:
            code = compile(ast.Expression(test), "<test>", "eval")
            return bool(eval(code, {"__builtins__": {}}, dict(self._numbers)))
        except Exception:  # such as a comparison of None with a number, which Triton compiles no better
            return None

    def _value(self, value: ast.expr) -> _Parameters:
        """Return the parameters that the value of an expression may be an address into."""
        if isinstance(value, ast.Name):
            return self._variables.get(value.id, _NONE)
        if isinstance(value, ast.Call):
            return self._call(value)
        if isinstance(value, ast.Compare):
            return _NONE
        parts = [self._value(part) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr)]
        return _NONE.union(*parts)

    def _call(self, call: ast.Call) -> _Parameters:
        """Return the parameters that a call's result may be an address into; note what it stores to."""
        called = self._resolved(call.func)
        given = [self._value(argument) for argument in call.args]
        named = {keyword.arg: self._value(keyword.value) for keyword in call.keywords}
        held = self._value(call.func.value) if isinstance(call.func, ast.Attribute) else _NONE
        every = held.union(*given, *named.values())
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if hasattr(called, "fn") and type(called).__module__.startswith("triton.runtime"):
            helper = _read(function_of(called), {})
            bound: dict[str | None, _Parameters] = {**named}
            bound.update(zip(helper.parameters, given, strict=False))
            for parameter in helper.stores:
                self._store(bound.get(parameter, _NONE), call)
            return _NONE.union(*(bound.get(parameter, _NONE) for parameter in helper.returned))
        if name == "store" or name.startswith("atomic_"):
            first = given[0] if given else named.get("pointer", _NONE)
            self._store(first if called is not None else held, call)  # `desc.store(…)` resolves to nothing
            return _NONE
        if name in ("load", "gather"):
            return _NONE
        if name == "inline_asm_elementwise" or (called is None and isinstance(call.func, ast.Name)):
            self._store(every, call)
        return every

    def _store(self, parameters: _Parameters, call: ast.Call) -> None:
        for parameter in parameters:
            self.stores.setdefault(parameter, set()).add(call.lineno)

    def _resolved(self, expression: ast.expr) -> Any:
        """Return the object that a global name, or an attribute of one, refers to; None for a value."""
        if isinstance(expression, ast.Name):
            if expression.id in self._variables:
                return None
            return self._globals.get(expression.id, getattr(builtins, expression.id, None))
        if isinstance(expression, ast.Attribute):
            return getattr(self._resolved(expression.value), expression.attr, None)
        return None
