"""Expressions that surely give a tensor of their own: new memory that nothing else holds.

An expression that isn't known here counts as shared. A module or a function of the user's may keep its
result, and so may a forward hook; ``reshape``, ``to`` and ``dropout`` may return their argument or a view.
"""

from __future__ import annotations

import libcst as cst

from ...operations import torch_table
from .._syntax import Source, is_name, root_name

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


def is_fresh(value: cst.BaseExpression | None, source: Source) -> bool:
    """Return whether an expression has just computed its value, so that no other code holds it.

    Args:
        value: The expression.
        source: Its file, whose imports decide that ``torch.exp(x)`` is torch's, and ``mine.exp(x)`` is not.
    """
    if value is None or isinstance(value, (cst.BaseNumber, cst.BaseString)):
        return True
    if isinstance(value, cst.Name):
        return value.value in ("None", "True", "False")
    if isinstance(value, (cst.BinaryOperation, cst.Comparison)):
        return True
    if isinstance(value, cst.UnaryOperation):
        return not isinstance(value.operator, cst.Plus)  # `+x` is x itself
    if isinstance(value, (cst.List, cst.Dict, cst.ListComp, cst.DictComp)):
        return True  # the container itself
    if isinstance(value, cst.IfExp):
        return is_fresh(value.body, source) and is_fresh(value.orelse, source)
    if isinstance(value, cst.Call) and not value.args and is_name(value.func, "list", "dict"):
        return True
    return isinstance(value, cst.Call) and computes(value, source)


def computes(call: cst.Call, source: Source) -> bool:
    """Return whether a call is one of torch's that returns a new tensor and keeps no argument.

    Not with ``out=`` or ``inplace=True``: those return an argument.
    """
    if any(argument.keyword is not None and argument.keyword.value == "out" for argument in call.args):
        return False
    if any(is_name(argument.value, "True") and not _is_about_dims(argument) for argument in call.args):
        return False
    func = call.func
    of_torch = source.names_from_torch
    if isinstance(func, cst.Name):
        return func.value in torch_table().surely_fresh and func.value in of_torch
    if not isinstance(func, cst.Attribute) or func.attr.value not in torch_table().surely_fresh:
        return False
    root = root_name(func.value)
    if root in of_torch or root in source.imported_names:
        return root in of_torch
    if func.attr.value in _CALLED_SO_BY_MODULES and not all(map(_is_no_tensor, call.args)):
        return False
    return not is_name(func.value, "self", "cls")  # `self.exp(x)` is a method of the user's own


def keeps_nothing(call: cst.Call, source: Source) -> bool:
    """Return whether a call surely keeps none of its arguments, nor returns one of them."""
    func = call.func
    if isinstance(func, cst.Name) and func.value in _PLAIN:
        return True
    if isinstance(func, cst.Attribute) and func.attr.value in _TELLS:
        return True
    return computes(call, source)


def _is_about_dims(argument: cst.Arg) -> bool:
    """Return whether an argument is ``keepdim=True`` or the like; a bare ``True`` may be `inplace`."""
    return argument.keyword is not None and argument.keyword.value != "inplace"


def _is_no_tensor(argument: cst.Arg) -> bool:
    value = argument.value
    if isinstance(value, cst.UnaryOperation):
        value = value.expression
    return argument.keyword is not None or isinstance(value, (cst.BaseNumber, cst.BaseString))
