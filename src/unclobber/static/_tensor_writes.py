"""Methods that write to a tensor, and their effect on values that share its memory."""

from __future__ import annotations

import ast
from dataclasses import replace

from ._arguments import Arguments
from ._core import HIGH
from ._operations import APART
from ._state import FlowState, both
from ._torch_calls import TorchCalls
from ._values import (
    Value,
)


class TensorWrites(TorchCalls):
    """The interpreter's part for in-place methods."""

    def _written(
        self,
        receiver: Value,
        name: str,
        function: ast.Attribute,
        node: ast.Call,
        given: Arguments,
        state: FlowState,
    ) -> Value:
        """Return the result of an in-place method, and record its write and its operation."""
        source = given.values[0] if given.values and given.values[0].may_be_tensor else None
        if name in ("scatter_", "index_copy_", "index_add_", "scatter_add_", "masked_fill_", "index_put_"):
            source = next((argument for argument in reversed(given.every) if argument.kind == "tensor"), None)
        result = self.write(state, receiver, function.value, node, name, source=source, method=True)
        result = replace(result, kind="tensor", sure=True, places=result.places or self.new_place())
        if receiver.data == "data" or (
            isinstance(function.value, ast.Attribute) and function.value.attr == "data"
        ):
            self.data_written(function.value, node, state)
        given_nodes = [] if given.starred else given.nodes
        result = self.operation(
            state, name[:-1], [result, *given.values], given.keywords, node,
            operands=[function.value, *given_nodes], in_place=True,
        )  # fmt: skip
        self.rebind_view(function.value, result, state)
        return result

    def rebind_view(self, target: ast.expr, value: Value, state: FlowState) -> None:
        """Give a tensor the history of a write to a part of it."""
        if value.data in APART:
            return
        if len(value.places) == 1:
            (place,) = value.places
            state.grown[place] = both(state.grown[place], value) if place in state.grown else value
        while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
            if isinstance(target, ast.Call):
                target = target.func
                continue
            if isinstance(target, ast.Attribute) and self.evaluate(target.value, state).kind == "object":
                self.bind(target, value, state)
                return
            target = target.value
        if isinstance(target, ast.Name) and target.id in state.names:
            old = state.names[target.id]
            if old.may_be_tensor:
                state.names[target.id] = replace(
                    old, nodes=old.nodes | value.nodes, may=old.may | value.may,
                    grad=max(old.grad, value.grad), uses=old.uses | value.uses,
                )  # fmt: skip

    def data_written(self, target: ast.expr, node: ast.expr | ast.stmt, state: FlowState) -> None:
        """Record a write through ``.data``, which changes parameters without torch's notice."""
        self.tick()
        part: ast.expr | None = target
        while isinstance(part, (ast.Attribute, ast.Subscript, ast.Call)):
            if isinstance(part, ast.Attribute) and part.attr == "data":
                break
            part = part.func if isinstance(part, ast.Call) else part.value
        if not isinstance(part, ast.Attribute):
            return
        value = self.evaluate(part.value, state)
        owner = value.name.rpartition(".")[0] or value.name
        owners = value.owners or (frozenset([owner]) if owner else frozenset())
        if owners:
            at = node if isinstance(node, ast.expr) else target
            self.step(state, owners, at, "data", HIGH - 1)
