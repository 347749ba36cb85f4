"""The target of a refused write: the operation, the user's expression and the tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..source import UNKNOWN, Located, is_library, value_of
from ..syntax import OPERATORS, is_in_place, last_name
from ._live import LiveFrame, user_depth
from .makers import viewed
from .operands import out_argument


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
    inner = written_at(live_frames[0])
    return inner if depth == 0 else _from_outside(live_frames, depth, inner)


def written_at(live_frame: LiveFrame) -> WriteTarget:
    located = live_frame.at.located()
    return WriteTarget() if located is None else _written(located, live_frame)


def _from_outside(live_frames: Sequence[LiveFrame], depth: int | None, inner: WriteTarget) -> WriteTarget:
    """Return the user's expression for a tensor that a library was about to write."""
    unknown = WriteTarget(inner.operation)
    if depth is None:
        return unknown
    live_frame = live_frames[depth]
    located = live_frame.at.located()
    if located is None:
        return WriteTarget()
    if inner.tensor is None or not isinstance(located.node, ast.Call):
        return unknown
    for node in _operands(located.node):
        if value_of(node, live_frame.frame) is inner.tensor:
            text = located.source.text(node)
            # If the library writes a view of its argument, the library makes that view, not the user's line.
            return WriteTarget(inner.operation, node, text, inner.tensor, None if inner.made_here else node)
    # The argument is a view that the line makes itself (`act(w[0])` in tests/unit/explain/test_refusals.py).
    # A module that runs others (Sequential) passes on tensors that it computed itself.
    codes = [live_frame.code for live_frame in live_frames[:depth]]
    runs = sum(code.co_qualname.endswith(".forward") for code in codes)
    passes_on = runs < 2 and all(map(is_library, codes))
    if passes_on and len(located.node.args) == 1 and _is_parameter(inner, live_frames[0]):
        return _as_view(located.node.args[0], located, live_frame, inner.operation)
    return unknown


def _is_parameter(inner: WriteTarget, live_frame: LiveFrame) -> bool:
    code = live_frame.code
    return isinstance(inner.node, ast.Name) and inner.node.id in code.co_varnames[: code.co_argcount]


def _operands(call: ast.Call) -> Iterator[ast.expr]:
    yield from (argument for argument in call.args if not isinstance(argument, ast.Starred))
    yield from (keyword.value for keyword in call.keywords)
    if isinstance(call.func, ast.Attribute):
        yield call.func.value


def _written(located: Located, live_frame: LiveFrame) -> WriteTarget:
    """Return the expression that an assignment, augmented assignment or call writes, with its ATen operation;
    unknown for other nodes."""
    node = located.node
    stored = node.target if isinstance(node, ast.AugAssign) else node
    # Indexing by a tensor makes no view, so all of the tensor is the target:
    # tests/programs/UC203/written_by_a_mask.py.
    if (
        isinstance(stored, ast.Subscript)
        and isinstance(stored.ctx, ast.Store)
        and _indexes_by_tensor(stored.slice, live_frame)
    ):
        return _as_view(stored.value, located, live_frame, "index_put_")
    if isinstance(node, ast.AugAssign):
        return _as_view(node.target, located, live_frame, OPERATORS[type(node.op)].in_place)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _as_view(node, located, live_frame, _assigned(located.statement, live_frame))
    if isinstance(node, ast.Call):
        return _called(node, located, live_frame)
    return WriteTarget()


def _called(node: ast.Call, located: Located, live_frame: LiveFrame) -> WriteTarget:
    """Return the target of a call: its ``out=``, an in-place method's receiver, or the first argument."""
    out = out_argument(node)
    name = last_name(node.func)
    if out is not None:
        return _as_view(out, located, live_frame, name)
    if isinstance(node.func, ast.Attribute) and is_in_place(name):
        receiver = _value(node.func.value, located, live_frame)
        if not isinstance(receiver, (type(torch), type)):
            return _as_view(node.func.value, located, live_frame, name)
    if node.args and not isinstance(node.args[0], ast.Starred):
        return _as_view(node.args[0], located, live_frame, name)
    return WriteTarget(name or None)


def _as_view(node: ast.expr, located: Located, live_frame: LiveFrame, operation: str | None) -> WriteTarget:
    """Return the target with its tensor; if the line makes a view, with the tensor that it views."""
    text = located.source.text(node)
    value = _value(node, located, live_frame)
    if isinstance(value, torch.Tensor):
        return WriteTarget(operation, node, text, value, node)
    if isinstance(node, ast.Name):
        return WriteTarget(operation, node, text, base=node)  # a name makes no view
    base, value = viewed(node), UNKNOWN
    while base is not None and value is UNKNOWN:
        value = _value(base, located, live_frame)
        if isinstance(value, torch.Tensor):
            return WriteTarget(operation, node, text, value, base)
        base = viewed(base)
    return WriteTarget(operation, node, text)


def _value(node: ast.expr, located: Located, live_frame: LiveFrame) -> Any:
    gone = located.inlined_names()
    if gone and any(isinstance(part, ast.Name) and part.id in gone for part in ast.walk(node)):
        return UNKNOWN
    return value_of(node, live_frame.frame)


def _assigned(statement: ast.stmt, live_frame: LiveFrame) -> str:
    """Return the operation of ``x[i] = v``: ``fill_`` for a number, ``copy_`` for a tensor."""
    if isinstance(statement, ast.Assign):
        value = statement.value
        # `-1` is an operator on a number, whose value is looked up below.
        if isinstance(value, ast.UnaryOp):
            value = value.operand
        assigned = value_of(value, live_frame.frame)
        if isinstance(assigned, (bool, int, float, complex)):
            return "fill_"
    return "copy_"


def _indexes_by_tensor(index: ast.expr, live_frame: LiveFrame) -> bool:
    """Return whether an index is or contains a list, a comparison or a tensor that is no scalar."""
    if isinstance(index, ast.Tuple):
        return any(_indexes_by_tensor(index_part, live_frame) for index_part in index.elts)
    if isinstance(index, (ast.List, ast.Compare)):
        return True
    value = value_of(index, live_frame.frame)
    return isinstance(value, (list, torch.Tensor)) and not (
        isinstance(value, torch.Tensor) and value.dim() == 0
    )
