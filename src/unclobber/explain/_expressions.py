"""The part of an expression that made a node of a graph, found by walking both down together.

``cost = a.sum() + 0.5 * b`` made an AddBackward0 whose second input is a MulBackward0: the ``+`` and the
``*``. Needed for nodes that saved only a Python number. No hook is called for those, so no stack was noted
when they were made.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import torch

from ..source import Stack
from ..syntax import OPERATORS
from ._live import LiveFrame
from .makers import anything
from .origins import Finder
from .places import Place

_NODES = {"sub": ("Sub", "Rsub"), "matmul": ("Mm", "Bmm", "Mv", "Dot", "UnsafeView")}
"""Names of the nodes that an operator's operation makes, if they are not its own alone."""


def stack_of(way: Sequence[Any], live_frames: Sequence[LiveFrame], depth: int) -> Stack | None:
    """Return the stack of the operation that made the last node of ``way``.

    Args:
        way: Nodes from the tensor that backward began at, each an input of the one before.
        live_frames: The frames of the failed backward, innermost first.
        depth: Index of the user's frame that called it: ``cost.backward()``.
    Returns:
        None unless every step of the way matches a part of the expression.
    """
    finder = Finder(live_frames, anything)
    place = Place.of(live_frames, depth)
    if place is None:
        return None
    origin = None
    match place.node:
        case ast.Call(func=ast.Attribute(attr="backward", value=root)):
            origin = finder.origin(root, place)
    if origin is None:
        return None
    for node, child in zip(way, [*way[1:], None], strict=True):
        if not _made(origin.node, node):
            return None
        if child is not None:
            operand = _operand(origin.node, node, child, origin.place)
            following = None if operand is None else finder.origin(operand, origin.place)
            if following is None:
                return None
            origin = following
    made = finder.made(origin.node, origin.place, "operator")
    return None if made is None else made.stack


def _made(expression: ast.expr, node: Any) -> bool:
    """Return whether the expression's own operation can have made the node."""
    name = node.name().partition("Backward")[0]
    if isinstance(expression, ast.BinOp):
        operation = OPERATORS[type(expression.op)].operation
        return name in _NODES.get(operation, (operation.capitalize(),))
    if isinstance(expression, ast.UnaryOp):
        return isinstance(expression.op, ast.USub) and name == "Neg"
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        return expression.func.attr.replace("_", "").lower() == str(name).lower()
    return False


def _operand(expression: ast.expr, node: Any, child: Any, place: Place) -> ast.expr | None:
    """Return the operand of the expression that made ``child``; None if it isn't certain."""
    places = [index for index, (following, _) in enumerate(node.next_functions) if following is child]
    if len(places) != 1:
        return None
    if isinstance(expression, ast.UnaryOp):
        return expression.operand
    if isinstance(expression, ast.BinOp):
        # `0.5 * x` calls mul(x, 0.5)
        if _is_number(expression.left, place):
            return expression.right
        if _is_number(expression.right, place):
            return expression.left
        sides = (expression.left, expression.right)
        return sides[places[0]] if len(node.next_functions) == 2 else None
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute) and places == [0]:
        receiver = expression.func.value
        value = place.value(receiver)
        if value is torch or (isinstance(receiver, ast.Name) and receiver.id in ("torch", "F")):
            return expression.args[0] if expression.args else None
        return receiver
    return None


def _is_number(node: ast.expr, place: Place) -> bool:
    return isinstance(node, ast.Constant) or isinstance(place.value(node), (int, float, complex))
