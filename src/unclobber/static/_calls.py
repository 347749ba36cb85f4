"""Calls: the kind of callee, and calls of the file's own functions and of Python's."""

from __future__ import annotations

import ast
from dataclasses import replace

from ._arguments import Arguments
from ._index import FunctionNode, dotted
from ._methods import Methods
from ._modules import is_static
from ._names import TRAINED
from ._state import FlowState
from ._values import (
    PLAIN,
    Constant,
    Grad,
    Leaf,
    Use,
    Value,
    join,
    sequence,
)

_PLAIN = """
len range int float str isinstance print bool hasattr type id super repr format issubclass callable ord chr
round divmod hash open vars dir
"""
_PLAIN_FUNCTIONS = frozenset(_PLAIN.split())
"""Python's own functions that return no tensor."""


class Calls(Methods):
    """The interpreter's part for calls."""

    def call(self, node: ast.Call, state: FlowState) -> Value:
        """Evaluate a call: of a library by its imported name, of a method, or of another value."""
        function = node.func
        full = self.index.full(function)
        head = dotted(function).partition(".")[0]
        known_name = isinstance(function, ast.Name) and function.id in state.names
        if (
            not known_name
            and full.partition(".")[0] in ("torch", "numpy", "math", "scipy", "einops")
            and (head in self.index.imports and head not in state.names)
        ):
            arguments = self._arguments(node, state)
            if full.startswith("torch."):
                return self.torch_call(full, node, arguments, state)
            if full.startswith("einops."):
                return self.unknown_result(state, arguments.every, strong=True)
            return PLAIN
        if isinstance(function, ast.Attribute):
            receiver = self.evaluate(function.value, state)
            return self.method_call(receiver, function, node, self._arguments(node, state), state)
        callee = self.evaluate(function, state)
        return self.call_value(callee, node, self._arguments(node, state), state, dotted(function))

    def _arguments(self, node: ast.Call, state: FlowState) -> Arguments:
        """Evaluate the arguments; a starred or doubly starred one hides which parameter gets which value."""
        values: list[Value] = []
        starred = False
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                starred = True
                value = self.evaluate(argument.value, state)
                values += value.items if value.kind == "sequence" else [self.elements(value, state)]
            else:
                values.append(self.evaluate(argument, state))
        keywords = {
            keyword.arg: self.evaluate(keyword.value, state) for keyword in node.keywords if keyword.arg
        }
        for packed in node.keywords:
            if packed.arg is None:
                self.evaluate(packed.value, state)
        # Behind a starred argument the positions are unknown, so no expression is blamed as an operand.
        nodes = [] if starred else list(node.args)
        return Arguments(values, keywords, nodes, starred)

    # --- values that are called ------------------------------------------------------------------------
    def call_value(
        self, callee: Value, node: ast.Call, given: Arguments, state: FlowState, name: str
    ) -> Value:
        """Return the result of calling a value."""
        if callee.kind == "function":
            return self._function(callee, given, state)
        if callee.kind == "class":
            return self._construct(callee, node, given, state)
        if callee.kind == "module" and callee.data.kind not in ("ModuleList", "ModuleDict"):
            return self.apply(state, callee, given.values, given.keywords, node)
        if callee.kind == "object":
            return self.apply(state, callee, given.values, given.keywords, node)
        last = name.rpartition(".")[2]
        builtin = (
            self._builtin(last, node, given, state) if callee.given or callee.kind == "unknown" else None
        )
        if builtin is not None:
            return builtin
        strong = bool(TRAINED.search(last))
        result = self.unknown_result(state, given.values, strong=strong, more=tuple(given.keywords.values()))
        if callee.kind == "unknown" and callee.name and strong and not state.mode:
            result = self._used_unknown(result, callee, node)
        return result

    def _used_unknown(self, result: Value, callee: Value, node: ast.Call) -> Value:
        bit = self.new_node()
        use = Use(callee.name, self.tick(), self.span(node))
        return replace(result, nodes=result.nodes | bit, may=result.may | bit, uses=result.uses | {use})

    def _function(self, callee: Value, given: Arguments, state: FlowState) -> Value:
        """Return the result of one of the file's functions or methods, followed into its body."""
        if isinstance(callee.data, tuple):
            method, owner = callee.data
            return self.inline(
                method, state, given.values, given.keywords, None if is_static(method) else owner
            )
        if isinstance(callee.data, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.inline(callee.data, state, given.values, given.keywords)
        return self.unknown_result(state, given.every)

    def _construct(self, callee: Value, node: ast.Call, given: Arguments, state: FlowState) -> Value:
        """Return a new object; in the file's own statements its ``__init__`` is followed with the given
        arguments."""
        name = f"{callee.data}{'#' if self.at_top else '@'}{self.tick()}"
        made = Value("object", grad=Grad.NO, data=callee.data, name=name)
        init = self.index.method(self.index.classes[callee.data], "__init__")
        if self.at_top and init is not None and not given.starred:
            self.inline(init, state, given.values, given.keywords, made)
        elif init is not None and not given.starred:
            made = replace(made, made=self.span(node))
            self._note_constants(init, made, given)
        return made

    def _note_constants(self, init: FunctionNode, made: Value, given: Arguments) -> None:
        """Record the attributes that ``__init__`` sets to constants and the file sets nowhere else
        (``self.causal = causal``)."""
        assert made.made is not None
        if made.made in self.constructed:
            return
        self.constructed[made.made] = constants = {}
        # A trial: `class_attributes` interprets this `__init__` for any arguments, and keeps its suspicions.
        outer = (self.suspicions, self.evaluated)
        self.suspicions, trial = {}, FlowState()
        self.inline(init, trial, given.values, given.keywords, made)
        self.suspicions, self.evaluated = outer
        for key, value in trial.attributes.items():
            owner, _, name = key.rpartition(".")
            once = self.index.assigned_attributes[name] == 1
            if owner == made.name and once and isinstance(value.data, Constant):
                constants[name] = value

    def _builtin(self, name: str, node: ast.Call, given: Arguments, state: FlowState) -> Value | None:
        """Return the result of a Python builtin; None if the name is none."""
        values = given.values
        if name in _PLAIN_FUNCTIONS:
            return PLAIN
        if name == "getattr":
            return Value(places=self.new_place())
        if name in ("list", "tuple", "reversed", "iter", "sorted", "set", "next"):
            if not values:
                return sequence((), "list")
            return self.elements(values[0], state) if name == "next" else values[0]
        if name == "dict" and not values:
            keys = tuple(given.keywords)
            return sequence(tuple(given.keywords.values()), keys) if keys else sequence((), "dict")
        if name == "zip" and values:
            each = tuple(self.elements(value, state) for value in values)
            return sequence((sequence(each, "tuple"),), "list")
        if name == "enumerate" and values:
            return sequence((sequence((PLAIN, self.elements(values[0], state)), "tuple"),), "list")
        if name == "abs" and values:
            return (
                self.operation(state, "abs", values, {}, node, operands=given.nodes)
                if values[0].may_be_tensor
                else PLAIN
            )
        if name in ("sum", "max", "min") and values:
            return self._reduced(values, state)
        return None

    def _reduced(self, values: list[Value], state: FlowState) -> Value:
        """Return the join of all elements, as the result of ``sum``, ``max`` or ``min``."""
        element = None
        for value in values:
            element = join(self.elements(value, state) if value.kind == "sequence" else value, element)
        assert element is not None
        if not element.may_be_tensor:
            return element
        return replace(element, places=self.new_place(), leaf=Leaf.NO, origin=None)
