"""Calls of torch's functions, modules and optimizers."""

from __future__ import annotations

import ast
from dataclasses import replace

from ._arguments import Arguments, each_of, retains_graph
from ._expressions import Expressions
from ._index import mode_of
from ._modules import CONTAINERS, PASSES
from ._state import FlowState
from ._values import (
    PLAIN,
    Constant,
    Grad,
    Leaf,
    Value,
    sequence,
)
from .torch_table import torch_table

_PREFIXES = ("linalg.", "special.", "fft.")


class TorchCalls(Expressions):
    """The interpreter's part for torch's own functions and classes."""

    def torch_call(self, full: str, node: ast.Call, given: Arguments, state: FlowState) -> Value:
        """Return the result of a call of torch, by its full name."""
        last = full.rpartition(".")[2]
        # These functions write under no_grad, so a leaf may be written.
        if ".nn.init." in full:
            return given.values[0] if given.values else PLAIN
        if last == "Parameter":
            grad = Grad.NO if given.keywords.get("requires_grad", PLAIN).data == Constant(False) else Grad.YES
            made = replace(self.tensor(grad), leaf=Leaf.LEAF if grad else Leaf.NO, made=self.span(node))
            return replace(made, uses=frozenset())
        if _is_module(full, last):
            return self.make_module(last, node, given.values, given.keywords, state)
        if ".optim." in full and last[:1].isupper():
            return self._optimizer(full, given)
        special = self._torch_special(full, last, node, given, state)
        return special if special is not None else self._torch_operation(full, last, node, given, state)

    def _optimizer(self, full: str, given: Arguments) -> Value:
        """Return an optimizer with the parameters that it was given."""
        if "lr_scheduler" in full or "swa_utils" in full:
            return PLAIN
        owners = frozenset[str]()
        for value in given.every:
            for element in (value, *value.items, *(inner for item in value.items for inner in item.items)):
                owners |= element.owners
                if element.leaf == Leaf.LEAF:
                    owners |= {f"leaf {place}" for place in element.places}
        return Value(
            "optimizer", grad=Grad.NO, owners=owners, data="fused" if given.is_true("fused") else None
        )

    def _torch_special(
        self, full: str, last: str, node: ast.Call, given: Arguments, state: FlowState
    ) -> Value | None:
        """Return the result of a torch function with a meaning of its own, such as ``autograd.grad``; None
        for others."""
        if last == "set_grad_enabled" and given.values:
            mode = mode_of(node)
            if mode is not None and isinstance(self.statement, ast.Expr):
                state.mode = mode
            return PLAIN
        # A checkpoint saves its inputs only; the first argument is the function that it runs.
        if last == "checkpoint" and given.values:
            return self.unknown_result(state, given.values[1:], strong=True)
        if full.endswith("autograd.grad") and given.values:
            retain = not given.keywords.keys() & {"retain_graph", "create_graph"} or given.is_true(
                "create_graph"
            )
            for loss in each_of(given.values[0]):
                self.backward(
                    state, loss, node, retain=retain or given.is_true("retain_graph"), to_leaves=False
                )
            result = self.tensor(Grad.MAYBE if given.is_true("create_graph") else Grad.NO)
            return sequence((result,), "several")
        if full.endswith("autograd.backward") and given.values:
            for loss in each_of(given.values[0]):
                self.backward(state, loss, node, retain=retains_graph(given))
            return PLAIN
        if last in ("manual_seed", "device", "Generator", "Size", "compile", "set_num_threads"):
            return given.values[0] if last == "compile" and given.values else PLAIN
        return None

    def _torch_operation(
        self, full: str, last: str, node: ast.Call, given: Arguments, state: FlowState
    ) -> Value:
        """Return the result of a torch operation: into ``out=``, in place, or a new tensor."""
        table = torch_table()
        functional = ".functional." in full
        name = last
        for prefix in _PREFIXES:
            if full.startswith(f"torch.{prefix}"):
                name = f"{prefix[:-1]}_{last}"
        bare = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        out = given.keywords.get("out")
        if out is not None and out.may_be_tensor:
            target = next((keyword.value for keyword in node.keywords if keyword.arg == "out"), None)
            keywords = {key: value for key, value in given.keywords.items() if key != "out"}
            self.operation(state, bare, given.values, keywords, node, operands=given.nodes, torchs=True)
            return self.write(state, out, target, node, f"{last}(out=)")
        in_place = given.is_true("inplace") or (bare != name and table.knows(bare))
        if in_place and given.values:
            target = node.args[0] if node.args else None
            first = self.write(
                state, given.values[0], target, node, f"{last}(inplace=True)" if bare == name else last
            )
            result = self.operation(
                state,
                bare,
                [first, *given.values[1:]],
                {},
                node,
                in_place=True,
                torchs=True,
                functional=functional,
            )
            if isinstance(target, ast.Name):
                state.names[target.id] = result
            return result
        if table.knows(bare) or table.overloads(bare, functional=functional):
            return self.operation(
                state, bare, given.values, given.keywords, node, operands=given.nodes, torchs=True,
                functional=functional,
            )  # fmt: skip
        return self._torch_unknown(full, last, given, state, functional=functional)

    def _torch_unknown(
        self, full: str, last: str, given: Arguments, state: FlowState, *, functional: bool
    ) -> Value:
        """Return the result of a torch function that is not in the table."""
        plain = full.count(".") == 1
        result = self.unknown_result(state, given.values, strong=functional or plain, more=tuple(given.every))
        if not functional and not (plain and last[:1].islower()):
            return result
        if functional:
            for argument in given.values:
                if argument.may_be_tensor:
                    state.sure |= argument.places
        grad = Grad.NO if state.mode else max([Grad.MAYBE, *(argument.grad for argument in given.values)])
        return replace(result, kind="tensor", sure=True, grad=grad)


def _is_module(full: str, last: str) -> bool:
    """Return whether it is a module class that the table or the interpreter knows."""
    named = full.startswith("torch.nn.") and last[:1].isupper() and ".functional." not in full
    return named and (last in CONTAINERS or last in PASSES or last in torch_table().modules)
