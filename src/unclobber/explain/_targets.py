"""The target of a refused write: the operation, the user's expression and the tensor."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..source import UNKNOWN, is_library
from ..syntax import OPERATORS, is_in_place, last_name
from ._live import LiveFrame, user_depth
from .makers import viewed
from .operands import out_argument
from .places import Place


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


def find(live_frames: Sequence[LiveFrame]) -> WriteTarget:
    """Return the target of the operation that raised in the innermost frame."""
    depth = user_depth(live_frames)
    inner = written_at(live_frames)
    return inner if depth == 0 else _from_outside(live_frames, depth, inner)


def written_at(live_frames: Sequence[LiveFrame]) -> WriteTarget:
    """Return what the innermost line writes."""
    place = Place.of(live_frames, 0)
    return WriteTarget() if place is None else _written(place)


def _from_outside(live_frames: Sequence[LiveFrame], depth: int | None, inner: WriteTarget) -> WriteTarget:
    """Return the user's expression for a tensor that a library was about to write."""
    unknown = WriteTarget(inner.operation)
    if depth is None:
        return unknown
    place = Place.of(live_frames, depth)
    if place is None:
        return WriteTarget()
    call = place.node
    if inner.tensor is None or not isinstance(call, ast.Call):
        return unknown
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    given += [call.func.value] if isinstance(call.func, ast.Attribute) else []
    for node in given:
        if place.value(node) is inner.tensor:
            text = place.source.text(node)
            # If the library writes a view of its argument, the library makes that view, not the user's line.
            return WriteTarget(inner.operation, node, text, inner.tensor, None if inner.made_here else node)
    # The argument is a view that the line makes itself (`act(w[0])` in tests/unit/explain/test_refusals.py).
    # A module that runs others (Sequential) passes on tensors that it computed itself.
    codes = [live_frame.code for live_frame in live_frames[:depth]]
    runs = sum(code.co_qualname.endswith(".forward") for code in codes)
    passes_on = runs < 2 and all(map(is_library, codes))
    own = codes[0].co_varnames[: codes[0].co_argcount]
    if passes_on and len(call.args) == 1 and getattr(inner.node, "id", None) in own:
        return _view(call.args[0], place, inner.operation)
    return unknown


def _written(place: Place) -> WriteTarget:
    """Return the expression that an assignment, augmented assignment or call writes, with its ATen
    operation; unknown for other nodes."""
    node = place.node
    stored = node.target if isinstance(node, ast.AugAssign) else node
    if isinstance(stored, ast.Subscript) and isinstance(stored.ctx, ast.Store):
        # Indexing by a tensor makes no view, so all of the tensor is the target:
        # tests/programs/UC203/written_by_a_mask.py.
        if _indexes_by_tensor(stored.slice, place):
            return _view(stored.value, place, "index_put_")
        if node is stored:
            return _view(node, place, _assigned(place))
    if isinstance(node, ast.AugAssign):
        return _view(node.target, place, OPERATORS[type(node.op)].in_place)
    return _called(node, place) if isinstance(node, ast.Call) else WriteTarget()


def _called(node: ast.Call, place: Place) -> WriteTarget:
    """Return the target of a call: its ``out=``, an in-place method's receiver, or the first argument."""
    out = out_argument(node)
    name = last_name(node.func)
    if out is not None:
        return _view(out, place, name)
    if isinstance(node.func, ast.Attribute) and is_in_place(name):
        receiver = place.value(node.func.value)
        if not isinstance(receiver, (type(torch), type)):
            return _view(node.func.value, place, name)
    if node.args and not isinstance(node.args[0], ast.Starred):
        return _view(node.args[0], place, name)
    return WriteTarget(name or None)


def _view(node: ast.expr, place: Place, operation: str | None) -> WriteTarget:
    """Return the target with its tensor; if the line makes a view, with the tensor that it views."""
    text = place.source.text(node)
    base: ast.expr | None = node
    while base is not None:
        value = place.value(base)
        if isinstance(value, torch.Tensor):
            return WriteTarget(operation, node, text, value, base)
        base = viewed(base) if base is node or value is UNKNOWN else None
    # A name makes no view.
    return WriteTarget(operation, node, text, base=node if isinstance(node, ast.Name) else None)


def _assigned(place: Place) -> str:
    """Return the operation of ``x[i] = v``: ``fill_`` for a number, ``copy_`` for a tensor."""
    if isinstance(place.at, ast.Assign):
        value = place.at.value
        # `-1` is an operator on a number, whose value is looked up below.
        if isinstance(value, ast.UnaryOp):
            value = value.operand
        if isinstance(place.value(value), (bool, int, float, complex)):
            return "fill_"
    return "copy_"


def _indexes_by_tensor(index: ast.expr, place: Place) -> bool:
    """Return whether an index is or contains a list, a comparison or a tensor that is no scalar."""
    if isinstance(index, ast.Tuple):
        return any(_indexes_by_tensor(element, place) for element in index.elts)
    if isinstance(index, (ast.List, ast.Compare)):
        return True
    value = place.value(index)
    return isinstance(value, list) or (isinstance(value, torch.Tensor) and value.dim() != 0)
