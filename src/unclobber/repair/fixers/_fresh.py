"""Expressions that surely give a tensor of their own: new memory that nothing else holds.

An expression that isn't known here counts as shared. A module or a function of the user's may keep its
result, and so may a forward hook; ``reshape``, ``to`` and ``dropout`` may return their argument or a view.
"""

from __future__ import annotations

import ast

from ...syntax import last_name, torch_table
from .._syntax import Comprehension, Source, is_constant, is_name, root_name

_TELLS = frozenset(
    {"backward", "data_ptr", "dim", "element_size", "is_contiguous", "item", "nelement", "numel", "size",
     "storage_offset", "stride", "tolist"}
)  # fmt: skip
"""Methods that return no tensor."""

_PLAIN = frozenset(
    {"abs", "bool", "float", "id", "int", "isinstance", "len", "print", "repr", "round", "str"}
)
"""Python's own functions that keep none of their arguments and return no tensor that they got."""


_CALLED_SO_BY_MODULES = frozenset({"relu", "sigmoid", "tanh", "softmax", "log_softmax", "norm", "prelu"})
"""Methods of tensors that take no tensor: `net.relu(x)` calls a module stored under the name."""
_NEW = ast.Constant | ast.JoinedStr | ast.BinOp | ast.Compare | ast.List | ast.Dict | Comprehension


def is_fresh(value: ast.expr | None, source: Source) -> bool:
    """Return whether an expression has just computed its value, so that no other code holds it.

    Args:
        value: The expression.
        source: Its file, whose imports decide that ``torch.exp(x)`` is torch's, and ``mine.exp(x)`` is not.
    """
    if value is None or isinstance(value, _NEW):
        return True
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, ast.UAdd)  # `+x` is x itself
    if isinstance(value, ast.IfExp):
        return is_fresh(value.body, source) and is_fresh(value.orelse, source)
    return isinstance(value, ast.Call) and (is_empty_container(value) or computes(value, source))


def is_empty_container(value: ast.expr | None) -> bool:
    """Return whether an expression is ``list()`` or ``dict()``."""
    return isinstance(value, ast.Call) and not value.args and is_name(value.func, "list", "dict")


def computes(call: ast.Call, source: Source) -> bool:
    """Return whether a call is one of torch's that returns a new tensor and keeps no argument.

    Not with ``out=`` or ``inplace=True``: those return an argument. A bare ``True`` may be `inplace`.
    """
    if any(argument.arg == "out" for argument in call.keywords):
        return False
    inplace = [argument.value for argument in call.keywords if argument.arg == "inplace"]
    if any(is_constant(value, True) for value in (*call.args, *inplace)):
        return False
    name, of_torch = last_name(call.func), source.names_from_torch
    if name not in torch_table().surely_fresh:
        return False
    if not isinstance(call.func, ast.Attribute):
        return name in of_torch
    root = root_name(call.func.value)
    if root in of_torch or root in source.imported_names:
        return root in of_torch
    if name in _CALLED_SO_BY_MODULES and not all(map(_is_no_tensor, call.args)):
        return False
    return not is_name(call.func.value, "self", "cls")  # `self.exp(x)` is a method of the user's own


def keeps_nothing(call: ast.Call, source: Source) -> bool:
    """Return whether a call surely keeps none of its arguments, nor returns one of them."""
    own = _PLAIN if isinstance(call.func, ast.Name) else _TELLS
    return last_name(call.func) in own or computes(call, source)


def _is_no_tensor(argument: ast.expr) -> bool:
    value = argument.operand if isinstance(argument, ast.UnaryOp) else argument
    return isinstance(value, ast.Constant) and not isinstance(value.value, bool | None)
