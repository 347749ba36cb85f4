"""Expressions that make a tensor: a view, several views, a leaf, an expanded tensor.

Each function returns the operation's name if the expression makes the wanted kind of tensor, and None if it
only passes one on.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import torch

from ..source import UNKNOWN
from ..syntax import is_in_place, last_name, torch_table
from .places import Place

Accepts = Callable[[ast.expr, Place], str | None]
"""Function that returns how an expression made the tensor; None if the expression only passes it on."""


def view(node: ast.expr, place: Place) -> str | None:
    """Return the name of a view operation: ``x[1:]``, ``x.view(-1)``, ``F.apply(x)``; else None."""
    if isinstance(node, ast.Subscript):
        if place.is_tensor(node.value) or _only_tensors_take(node.slice):
            return "[]"
        return None
    if isinstance(node, ast.Attribute):
        is_view = node.attr in torch_table().view_attributes and place.is_tensor(node.value)
        return node.attr if is_view else None
    method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if method in torch_table().returns_views | torch_table().may_return_view:
        return method
    return multi_view(node) or custom_function(node, place)


def leaf(node: ast.expr, place: Place) -> str | None:
    """Return how the expression makes a leaf that requires grad, or a module with parameters; else None."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_":
        return "requires_grad_"
    if any(k.arg == "requires_grad" and getattr(k.value, "value", None) is True for k in node.keywords):
        return last_name(node.func)
    called, name = place.named(node.func), last_name(node.func)
    if called is UNKNOWN:
        # The call was in a constructor that has returned, so only the spelling is left.
        text = ast.unparse(node.func)
        if text.endswith("nn.Parameter") or text == "Parameter":
            return "Parameter"
        prefix, _, last = text.rpartition(".")
        called = getattr(torch.nn, last, None) if prefix in ("nn", "torch.nn") else None
    if not isinstance(called, type):
        return None
    if issubclass(called, torch.nn.Parameter):
        return "Parameter"
    return name if issubclass(called, torch.nn.Module) and is_library_class(called) else None


def expanded(node: ast.expr, place: Place) -> str | None:
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    return name if name in torch_table().expands | torch_table().expands_several else None


def anything(node: ast.expr, place: Place) -> str | None:
    """Return the name of any operation of torch's that makes a new tensor; None for views, in-place calls and
    the program's own functions.

    Used to find the innermost operation that made an inference tensor.
    """
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        return "operator"
    if not isinstance(node, ast.Call) or view(node, place) is not None:
        return None
    called, name = place.named(node.func), last_name(node.func)
    if isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr):
        return None
    if called is UNKNOWN:
        known = ast.unparse(node.func).startswith(("torch.", "F.")) or (
            isinstance(node.func, ast.Attribute) and hasattr(torch.Tensor, name)
        )
        return name if known else None
    if isinstance(called, torch.nn.Module):
        return name if is_library_class(type(called)) and type(called) is not torch.nn.Sequential else None
    is_torchs = getattr(called, "__module__", "").split(".")[0] == "torch"
    return name if is_torchs or isinstance(called, type(torch.add)) else None


def custom_function(node: ast.expr, place: Place) -> str | None:
    """Return the class name of an ``autograd.Function`` call: ``Gather`` for ``Gather.apply(x)``, or None."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="apply")):
            kind = place.named(owner)
            is_function = isinstance(kind, type) and issubclass(kind, torch.autograd.Function)
            return last_name(owner) if is_function else None
    return None


def viewed(node: ast.expr) -> ast.expr | None:
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr != "apply":
        return node.func.value
    return None


def multi_view(node: ast.expr, *_: object) -> str | None:  # `x.chunk(2)`, `torch.split(x, 1)`
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    return name if name in torch_table().returns_tied_views else None


def _only_tensors_take(index: ast.expr) -> bool:  # lists and dictionaries don't take it
    if isinstance(index, ast.Slice):
        return True
    if isinstance(index, ast.Constant):
        return index.value is Ellipsis or index.value is None
    return isinstance(index, ast.Tuple) and any(_only_tensors_take(element) for element in index.elts)


def is_library_class(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"
