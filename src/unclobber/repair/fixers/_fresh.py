"""Expressions that surely give a tensor of their own: new memory that nothing else holds.

An expression that isn't known here counts as shared. A module or a function of the user's may keep its
result, and so may a forward hook; ``reshape``, ``to`` and ``dropout`` may return their argument or a view.
"""

from __future__ import annotations

import libcst as cst

from .._syntax import Source, is_name, root_name

COMPUTES = frozenset(
    {
        # element by element
        "abs", "acos", "acosh", "add", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh",
        "ceil", "celu", "clamp", "clamp_max", "clamp_min", "clip", "clone", "copysign", "cos", "cosh",
        "div", "divide", "elu", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor",
        "floor_divide", "fmod", "frac", "ge", "gelu", "gt", "hardsigmoid", "hardswish", "hardtanh",
        "hypot", "isfinite", "isinf", "isnan", "le", "leaky_relu", "lerp", "lgamma", "log", "log10",
        "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logit",
        "logsigmoid", "lt", "masked_fill", "maximum", "minimum", "mish", "mul", "multiply", "nan_to_num",
        "ne", "neg", "negative", "pow", "prelu", "reciprocal", "relu", "relu6", "remainder", "round",
        "rsqrt", "rsub", "selu", "sigmoid", "sign", "silu", "sin", "sinc", "sinh", "softplus", "softsign",
        "sqrt", "square", "sub", "subtract", "tan", "tanh", "tanhshrink", "threshold", "trunc", "where",
        "xlogy",
        # along a dimension
        "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "count_nonzero", "cumprod", "cumsum",
        "log_softmax", "logcumsumexp", "logsumexp", "mean", "norm", "normalize", "prod", "softmax",
        "softmin", "std", "sum", "var", "vector_norm",
        # products, layers, losses, distances
        "addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "binary_cross_entropy",
        "binary_cross_entropy_with_logits", "bmm", "cdist", "conv1d", "conv2d", "conv3d",
        "cosine_similarity", "cross", "cross_entropy", "dist", "dot", "einsum", "embedding", "group_norm",
        "inner", "kl_div", "kron", "l1_loss", "layer_norm", "linear", "matmul", "mm", "mse_loss", "mv",
        "nll_loss", "outer", "scaled_dot_product_attention", "smooth_l1_loss",
        # others by index, joined, repeated
        "cat", "concat", "concatenate", "flip", "gather", "hstack", "index_add", "index_copy",
        "index_fill", "index_put", "index_select", "masked_select", "repeat", "repeat_interleave", "roll",
        "scatter", "scatter_add", "select_scatter", "slice_scatter", "stack", "take", "take_along_dim",
        "tile", "tril", "triu", "vstack",
        # from nothing
        "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "multinomial",
        "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "normal", "one_hot", "ones",
        "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "tensor", "zeros",
        "zeros_like",
    }
)  # fmt: skip
"""Functions and methods of torch whose result is always new, and that keep none of their arguments."""

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
        return func.value in COMPUTES and func.value in of_torch
    if not isinstance(func, cst.Attribute) or func.attr.value not in COMPUTES:
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
