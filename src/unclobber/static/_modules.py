"""Calls of modules: the tensors that torch's own save, and assumptions about others."""

from __future__ import annotations

import ast
from dataclasses import replace

from ._core import HIGH, Suspicion
from ._index import FunctionNode
from ._operations import Operations
from ._state import FlowState
from ._values import PLAIN, Constant, Grad, Leaf, ModuleData, SourceSpan, Use, Value, sequence
from .torch_table import ModuleFacts, torch_table

PASSES = frozenset({"Identity", "Flatten", "Unflatten"})
CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})
_MODULE = frozenset({"Module", "LightningModule"})
_DEEPEST = 6


class Modules(Operations):
    """The interpreter's part for modules."""

    def apply(
        self,
        state: FlowState,
        module: Value,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
        *,
        outer: bool = True,
    ) -> Value:
        """Return the result of a module's call."""
        if module.kind == "object":
            return self._apply_object(state, module, arguments, keywords, node)
        data = module.data
        first = arguments[0] if arguments else next(iter(keywords.values()), self.tensor())
        if data.kind == "Sequential":
            value = first
            for part in data.parts:
                value = self._part(state, part, value, node)
            return self._used(state, value, module, node)
        if data.kind in PASSES:
            return first
        facts = torch_table().modules.get(data.kind)
        if facts is None:
            return self.unknown_result(state, arguments, strong=True)
        return self._apply_known(state, module, facts, [first, *arguments[1:]], node)

    def _part(self, state: FlowState, part: Value, value: Value, node: ast.expr) -> Value:
        if part.kind in ("module", "object"):
            return self.apply(state, part, [value], {}, node, outer=False)
        return self.unknown_result(state, [value])

    def _used(self, state: FlowState, value: Value, module: Value, node: ast.expr) -> Value:
        if not module.name or value.kind != "tensor" or state.mode:
            return value
        return replace(value, uses=value.uses | {Use(module.name, self.tick(), self.span(node))})

    def _apply_object(
        self,
        state: FlowState,
        module: Value,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        """Return the result of an object of the file's own class, followed into its ``forward``."""
        cls = self.index.classes.get(module.data)
        name = "forward" if cls is not None and self.index.is_a(cls, _MODULE) else "__call__"
        method = None if cls is None else self.index.method(cls, name)
        if method is not None and self.depth < _DEEPEST:
            result = self.inline(method, state, arguments, keywords, module)
            if result.kind == "tensor" and not state.mode and name == "forward":
                result = self._used(state, replace(result, grad=max(result.grad, Grad.MAYBE)), module, node)
            return result
        grad = Grad.NO if state.mode else Grad.YES
        return self._result(state, module, arguments, node, grad, self.new_node())

    def _apply_known(
        self, state: FlowState, module: Value, facts: ModuleFacts, arguments: list[Value], node: ast.expr
    ) -> Value:
        """Return the result of a torch module of the table, and record the tensors that it saves."""
        data: ModuleData = module.data
        trained = facts.parameters and module.name not in self.frozen
        tensors = [argument for argument in arguments if argument.may_be_tensor]
        grad = Grad.YES if trained else max((tensor.grad for tensor in tensors), default=Grad.NO)
        grad = Grad.NO if state.mode else grad
        first = arguments[0]
        if first.may_be_tensor:
            state.sure |= first.places
        # The gradient of a frozen product's input reads only the weight, so the input isn't saved:
        # tests/programs/allowed/frozen_layer_input_overwritten.py.
        keeps_input = bool(facts.input) and not (facts.parameters and not trained and _is_product(data.kind))
        bit = self.new_node() if (keeps_input or facts.result) and grad else 0
        span = self.span(node)
        if data.inplace:
            return self._in_place(state, data, facts, first, node, bit, grad)
        if keeps_input:
            kept = arguments if facts.others else [first]
            for tensor in kept:
                self.save(state, tensor, operation=data.kind, role="input", span=span, node=bit, grad=grad)
        named = module if facts.parameters else replace(module, name="")
        result = self._result(state, named, arguments, node, grad, bit)
        if facts.result == "always":
            self.save(state, result, operation=data.kind, role="result", span=span, node=bit, grad=grad)
        if facts.is_tuple and data.kind in ("LSTM", "GRU", "RNN", "MultiheadAttention", "LSTMCell"):
            return sequence((result, replace(result, places=self.new_place())), "tuple")
        return result

    def _in_place(
        self,
        state: FlowState,
        data: ModuleData,
        facts: ModuleFacts,
        first: Value,
        node: ast.expr,
        bit: int,
        grad: Grad,
    ) -> Value:
        """Return the result of a module that writes in place, and record its write and save."""
        how = f"{data.kind}(inplace=True)"
        first = self.write(state, first, _argument(node), node, how)
        result = replace(
            first, kind="tensor", sure=True, places=first.places or self.new_place(),
            nodes=first.nodes | (bit if grad == Grad.YES else 0), may=first.may | bit,
            origin=None, leaf=Leaf.NO,
        )  # fmt: skip
        keeps = facts.result or any(
            overload.results for overload in torch_table().in_place(f"{_snake(data.kind)}_")
        )
        if keeps:
            self.save(
                state, result, operation=data.kind, role="result", span=self.span(node), node=bit, grad=grad
            )
        return result

    def _result(
        self, state: FlowState, module: Value, arguments: list[Value], node: ast.expr, grad: Grad, bit: int
    ) -> Value:
        """Return a new tensor that depends on all arguments and on the module's parameters."""
        if state.mode:
            return self.tensor(Grad.NO)
        nodes = may = bit
        uses = frozenset[Use]()
        for argument in arguments:
            for value in argument.items if argument.kind == "sequence" else (argument,):
                nodes, may, uses = nodes | value.nodes, may | value.may | value.nodes, uses | value.uses
        if module.name:
            uses |= {Use(module.name, self.tick(), self.span(node))}
        return replace(self.tensor(grad, nodes, may), uses=uses)

    def unknown_result(
        self, state: FlowState, arguments: list[Value], *, strong: bool = False, more: tuple[Value, ...] = ()
    ) -> Value:
        """Return the result of an unknown function: it may depend on all its arguments.

        Args:
            state: The state at the call.
            arguments: The function's arguments.
            strong: Whether the result surely depends on them.
            more: Further arguments, on which it may depend.
        """
        nodes = may = 0
        uses, owners = frozenset[Use](), frozenset[str]()
        for argument in (*arguments, *more):
            for value in (argument, *argument.items):
                may |= value.may | value.nodes
                nodes |= value.nodes
                owners |= value.owners
                uses |= value.uses
        if state.mode:
            return Value(grad=Grad.NO, places=self.new_place(), owners=owners)
        return Value(
            places=self.new_place(), nodes=nodes if strong else 0, may=may,
            uses=uses if strong else frozenset(), owners=owners,
        )  # fmt: skip

    # --- construction --------------------------------------------------------------------------------
    def make_module(
        self, kind: str, node: ast.Call, arguments: list[Value], keywords: dict[str, Value], state: FlowState
    ) -> Value:
        """Return a torch module, as its constructor makes it."""
        span = self.span(node)
        if kind in CONTAINERS:
            parts = tuple(arguments)
            if len(arguments) == 1 and arguments[0].kind == "sequence":
                parts = arguments[0].items
            exact = not any(isinstance(argument, ast.Starred) for argument in node.args) or len(parts) > 1
            made = Value("module", grad=Grad.NO, data=ModuleData(kind, False, parts, span))
            if kind == "Sequential" and exact and parts:
                self._check_chain(parts, node)
            return made
        facts = torch_table().modules.get(kind)
        at = facts.inplace if facts is not None else 0
        given = keywords.get("inplace") or (arguments[at - 1] if 0 < at <= len(arguments) else None)
        inplace = given is not None and given.data == Constant(True)
        return Value("module", grad=Grad.NO, data=ModuleData(kind, inplace, (), span))

    def _check_chain(self, parts: tuple[Value, ...], node: ast.Call) -> None:
        """Interpret a chain of modules by itself. If one writes to the tensor that the one before it saves,
        that is wrong for every caller."""
        known = {*torch_table().modules, *PASSES, "Sequential"}
        trial = FlowState()
        value = self.tensor()
        # Beyond `_DEEPEST`, so that no `forward` of the file is followed inside of a nested chain.
        kept, self.suspicions, depth, self.depth = self.suspicions, {}, self.depth, 99
        for part in parts:
            if part.kind == "module" and part.data.kind in known:
                value = self._chain_element(trial, part, value, node)
            else:
                value = self.tensor(Grad.YES, self.new_node())
        self.confirm(trial, value.may | value.nodes)
        in_chain, self.suspicions, self.depth = self.suspicions, kept, depth
        for suspicion in in_chain.values():
            if suspicion.rule == "saved":
                self._of_chain(suspicion)

    def _chain_element(self, trial: FlowState, part: Value, value: Value, node: ast.Call) -> Value:
        """Return the result of one module, located at the module's declaration."""
        span: SourceSpan = part.data.span
        at = ast.Name(id="_", ctx=ast.Load())
        ast.copy_location(at, node)
        at.lineno, at.col_offset = span.line, span.column
        at.end_lineno, at.end_col_offset = span.end_line, span.end_column
        # `span` would else take the lines of the statement that builds the chain.
        statement, self.statement = self.statement, None
        result = self.apply(trial, part, [value], {}, at, outer=False)
        self.statement = statement
        return result

    def _of_chain(self, suspicion: Suspicion) -> None:
        # Calls of a chain in the file's own statements are followed, too, and their suspicion is more
        # specific.
        self.suspect(
            FlowState(),
            replace(suspicion, rule="module", confidence=min(suspicion.confidence, HIGH - self.at_top)),
        )


def _argument(node: ast.expr) -> ast.expr | None:
    return node.args[0] if isinstance(node, ast.Call) and node.args else None


def _is_product(kind: str) -> bool:
    return kind.startswith(("Linear", "Conv"))


def _snake(kind: str) -> str:
    """Return ``leaky_relu`` for ``LeakyReLU``."""
    known = {
        "LeakyReLU": "leaky_relu",
        "ELU": "elu",
        "CELU": "celu",
        "SELU": "elu",
        "RReLU": "rrelu_with_noise",
    }
    return known.get(kind, kind.lower())


def is_static(function: FunctionNode) -> bool:
    """Return whether a method gets no object."""
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
        for decorator in function.decorator_list
    )


def is_property(function: FunctionNode) -> bool:
    """Return whether a method is read as an attribute."""
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


__all__ = ["CONTAINERS", "PLAIN", "Modules", "is_property", "is_static"]
