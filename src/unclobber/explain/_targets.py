"""The target of a refused write: the operation, the user's expression and the tensor."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..source import UNKNOWN, is_library
from ..syntax import OPERATORS, is_in_place, last_name
from ._live import user_depth
from .makers import viewed
from .operands import out_argument
from .places import LiveValues, Place


@dataclass(frozen=True)
class WriteTarget:
    """The tensor that an operation was about to write, as far as it is known."""

    operation: str | None = None  # torch's name of the operation: `copy_`, `normal_`
    node: ast.expr | None = None  # the user's expression for the target
    expression: str | None = None
    tensor: torch.Tensor | None = None  # the target, or the tensor that the line's view `node` is of
    base: ast.expr | None = None  # the expression of `tensor`: `x` of `x[0]`, else `node`

    @property
    def made_here(self) -> bool:
        return self.base is not self.node  # `x[0]` in `x[0] = 1`


def find(values: LiveValues) -> WriteTarget:
    """Return the target of the operation that raised in the innermost frame."""
    depth = user_depth(values.live_frames)
    inner = written_at(values)
    return inner if depth == 0 else _from_outside(values, depth, inner)


def written_at(values: LiveValues) -> WriteTarget:
    """Return what the innermost line writes."""
    place = values.place(0)
    return WriteTarget() if place is None else _RefusedLine(values, place).written()


def _from_outside(values: LiveValues, depth: int | None, inner: WriteTarget) -> WriteTarget:
    """Return the user's expression for a tensor that a library was about to write."""
    unknown = WriteTarget(inner.operation)
    if depth is None:
        return unknown
    place = values.place(depth)
    if place is None:
        return WriteTarget()
    call = place.node
    if inner.tensor is None or not isinstance(call, ast.Call):
        return unknown
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    given += [call.func.value] if isinstance(call.func, ast.Attribute) else []
    for node in given:
        if values.value(node, place) is inner.tensor:
            text = place.source.text(node)
            # If the library writes a view of its argument, the library makes that view, not the user's line.
            return WriteTarget(inner.operation, node, text, inner.tensor, None if inner.made_here else node)
    # The argument is a view that the line makes itself (`act(w[0])` in tests/unit/explain/test_refusals.py).
    # A module that runs others (Sequential) passes on tensors that it computed itself.
    codes = [live_frame.code for live_frame in values.live_frames[:depth]]
    runs = sum(code.co_qualname.endswith(".forward") for code in codes)
    passes_on = runs < 2 and all(map(is_library, codes))
    own = codes[0].co_varnames[: codes[0].co_argcount]
    if passes_on and len(call.args) == 1 and getattr(inner.node, "id", None) in own:
        return _RefusedLine(values, place).view(call.args[0], inner.operation)
    return unknown


class _RefusedLine(NamedTuple):
    """A line that was about to write, with the values of its expressions."""

    values: LiveValues
    place: Place

    def written(self) -> WriteTarget:
        """Return the expression that an assignment, augmented assignment or call writes, with its ATen
        operation; unknown for other nodes."""
        node = self.place.node
        stored = node.target if isinstance(node, ast.AugAssign) else node
        if isinstance(stored, ast.Subscript) and isinstance(stored.ctx, ast.Store):
            # Indexing by a tensor makes no view, so all of the tensor is the target:
            # tests/programs/UC203/written_by_a_mask.py.
            if self._indexes_by_tensor(stored.slice):
                return self.view(stored.value, "index_put_")
            if node is stored:
                return self.view(node, self._assigned())
        if isinstance(node, ast.AugAssign):
            return self.view(node.target, OPERATORS[type(node.op)].in_place)
        return self._called(node) if isinstance(node, ast.Call) else WriteTarget()

    def _called(self, node: ast.Call) -> WriteTarget:
        """Return the target of a call: its ``out=``, an in-place method's receiver, or the first argument."""
        out = out_argument(node)
        name = last_name(node.func)
        if out is not None:
            return self.view(out, name)
        if isinstance(node.func, ast.Attribute) and is_in_place(name):
            receiver = self.value(node.func.value)
            if not isinstance(receiver, (type(torch), type)):
                return self.view(node.func.value, name)
        if node.args and not isinstance(node.args[0], ast.Starred):
            return self.view(node.args[0], name)
        return WriteTarget(name or None)

    def view(self, node: ast.expr, operation: str | None) -> WriteTarget:
        """Return the target with its tensor; if the line makes a view, with the tensor that it views."""
        text = self.place.source.text(node)
        base: ast.expr | None = node
        while base is not None:
            value = self.value(base)
            if isinstance(value, torch.Tensor):
                return WriteTarget(operation, node, text, value, base)
            base = viewed(base) if base is node or value is UNKNOWN else None
        # A name makes no view.
        return WriteTarget(operation, node, text, base=node if isinstance(node, ast.Name) else None)

    def value(self, node: ast.expr) -> Any:
        return self.values.value(node, self.place)

    def _assigned(self) -> str:
        """Return the operation of ``x[i] = v``: ``fill_`` for a number, ``copy_`` for a tensor."""
        if isinstance(self.place.at, ast.Assign):
            value = self.place.at.value
            # `-1` is an operator on a number, whose value is looked up below.
            if isinstance(value, ast.UnaryOp):
                value = value.operand
            if isinstance(self.value(value), (bool, int, float, complex)):
                return "fill_"
        return "copy_"

    def _indexes_by_tensor(self, index: ast.expr) -> bool:
        """Return whether an index is or contains a list, a comparison or a tensor that is no scalar."""
        if isinstance(index, ast.Tuple):
            return any(map(self._indexes_by_tensor, index.elts))
        if isinstance(index, (ast.List, ast.Compare)):
            return True
        value = self.value(index)
        return isinstance(value, list) or (isinstance(value, torch.Tensor) and value.dim() != 0)
