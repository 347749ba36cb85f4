"""The argument of a Python call that becomes each saved tensor of a backward node.

An operation called by its own name follows its schema. These tables hold the others: functions that run
another operation (``softmax`` runs ``_softmax``), torch's Python functions and its modules. Every row says
that the tensor *is* the argument or a view of it, so intermediate results are left out.
``tests/unit/explain/test_spelling.py`` compares the rows with the memory that autograd really kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..syntax import torch_table

RESULT = "="  # the role of the call's return value

Roles = Mapping[str, str]

LINEAR: Mapping[str, Roles] = {
    "addmm": {"mat1": "input", "mat2": "weight", "self": "bias"},
    "mm": {"self": "input", "mat2": "weight"},
}
"""Names under which ``mm`` and ``addmm`` are described if ``linear`` ran them.

``linear`` multiplies by the transposed weight, so mm's own formulas would put the program's names in the
wrong places.
"""


@dataclass(frozen=True)
class Form:
    """The parameters of one Python function, and what its operations save."""

    parameters: tuple[str, ...]
    operations: Mapping[str, Roles]  # role to parameter, by operation (as the derivative table names it)
    method_parameters: tuple[str, ...] | None = None
    """The parameter order as a method, receiver first, if it differs."""
    required: int = 1  # the number of parameters without a default
    given: Mapping[str, str] = field(default_factory=dict)
    """Arguments that the function itself passes to its operation, by that operation's argument name."""


_POINTWISE: Roles = {"self": "input", "result": RESULT}
_LOSS: Roles = {"self": "input", "target": "target"}
_ATTENTION = {"query": "query", "key": "key", "value": "value"}
_CONV = Form(("input", "weight", "bias"), {"convolution": {"input": "input", "weight": "weight"}}, required=2)

_RUNS = {"selu": "elu", "relu6": "hardtanh", "softmax": "_softmax", "log_softmax": "_log_softmax"}
"""Functions of one tensor that run an operation of another name."""

FUNCTIONS: dict[str, Form] = {
    **{
        name: Form(("input", "dim", "dtype"), {_RUNS[name]: _POINTWISE}, required=2)
        for name in ("softmax", "log_softmax")
    },
    **{name: Form(("input",), {_RUNS[name]: _POINTWISE}) for name in ("selu", "relu6")},
    "linear": Form(
        ("input", "weight", "bias"), {**LINEAR, "linear": {"input": "input", "weight": "weight"}}, required=2
    ),
    **{f"conv{kind}{n}d": _CONV for kind in ("", "_transpose") for n in (1, 2, 3)},
    "layer_norm": Form(
        ("input", "normalized_shape", "weight", "bias", "eps"),
        {"native_layer_norm": {"input": "input", "weight": "weight", "bias": "bias"}},
        required=2,
    ),
    "scaled_dot_product_attention": Form(
        ("query", "key", "value"),
        {
            f"_scaled_dot_product_{kernel}_attention{device}": _ATTENTION
            for kernel, device in (("flash", "_for_cpu"), ("flash", ""), ("efficient", ""), ("cudnn", ""))
        },
        required=3,
    ),
    "clamp": Form(
        ("input", "min", "max"),
        {
            "clamp": {"self": "input", "min": "min", "max": "max"},
            "clamp_min": {"self": "input", "min": "min"},
            "clamp_max": {"self": "input", "max": "max"},
        },
    ),
    "square": Form(("input",), {"pow": _POINTWISE}, given={"exponent": "2"}),
    "logsigmoid": Form(("input",), {"log_sigmoid_forward": {"self": "input"}}),
    "prelu": Form(("input", "weight"), {"_prelu_kernel": {"self": "input", "weight": "weight"}}, required=2),
    "where": Form(
        ("condition", "input", "other"),
        {"where": {"condition": "condition", "self": "input", "other": "other"}},
        ("input", "condition", "other"),
        required=3,
    ),
    "max": Form(("input", "other"), {"maximum": {"self": "input", "other": "other"}}, required=2),
    "min": Form(("input", "other"), {"minimum": {"self": "input", "other": "other"}}, required=2),
    "outer": Form(("input", "vec2"), {"mul": {"self": "input", "other": "vec2"}}, required=2),
    **{name: Form(("input", "dim", "unbiased", "keepdim"), {name: _POINTWISE}) for name in ("std", "var")},
    **dict.fromkeys(("inverse", "inv"), Form(("input",), {"linalg_inv_ex": {"inverse": RESULT}})),
}
"""Built-in functions and methods that run an operation of another name or order."""

ALIASES = {
    **{
        name.removeprefix("special_"): same
        for name, same in torch_table().aliases.items()
        if name not in FUNCTIONS
    },
    "true_divide": "div",
    "gammainc": "igamma",
    "gammaincc": "igammac",
}
"""Other names of the same function; ``torch.special`` functions are called by their bare names."""

_NORM = {
    "native_layer_norm": {"input": "input", "weight": "weight", "bias": "bias"},
    "native_group_norm": {"input": "input", "weight": "weight"},
    "native_batch_norm": {name: name for name in ("input", "weight", "running_mean", "running_var")},
    "cudnn_batch_norm": {"input": "input", "weight": "weight"},
}

_UNARY = (
    "relu", "leaky_relu", "elu", "celu", "silu", "mish", "glu", "tanh", "sigmoid", "hardtanh",
    "hardswish", "hardsigmoid",
)  # fmt: skip
_LOSSES = (
    "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
)  # fmt: skip

PYTHON_FUNCTIONS: dict[str, Mapping[str, Roles]] = {
    **{name: {name: _POINTWISE} for name in _UNARY},
    **{name: {operation: _POINTWISE} for name, operation in _RUNS.items()},
    "_threshold": {"threshold": _POINTWISE},
    **dict.fromkeys(("layer_norm", "group_norm", "batch_norm"), _NORM),
    **{name: {name: _LOSS} for name in _LOSSES},
    "embedding": {"embedding": {"indices": "input"}},
    "grid_sample": {f"grid_sampler_{n}d": {"input": "input", "grid": "grid"} for n in (2, 3)},
    "_max_pool2d": {"max_pool2d_with_indices": {"self": "input"}, "max_pool2d": {"self": "input"}},
    "nll_loss": {"nll_loss_forward": _LOSS, "nll_loss2d_forward": _LOSS},
    "cross_entropy": {"nll_loss_forward": {"target": "target"}, "nll_loss2d_forward": {"target": "target"}},
    "Tensor.norm": {"linalg_vector_norm": {"self": "self", "result": RESULT}},
    "norm": {"linalg_vector_norm": {"self": "input", "result": RESULT}},
    "ctc_loss": {"_ctc_loss": {"log_probs": "log_probs", "targets": "targets"}},
    "cdist": {"_cdist_forward": {"x1": "x1", "x2": "x2", "result": RESULT}},
}
"""torch's functions written in Python, by ``__qualname__``; parameters by their own names."""

NESTED: dict[str, frozenset[str]] = {
    "boolean_dispatch.<locals>.fn": frozenset({"_max_pool2d"}),
    "Tensor.norm": frozenset({"norm"}),
}
"""Functions that only pass their arguments on to another."""


_ACTIVATIONS = (
    "ReLU", "ELU", "CELU", "SiLU", "Mish", "GELU", "Tanh", "Sigmoid", "Hardtanh", "Hardswish", "Hardsigmoid",
    "Softplus", "GLU",
)  # fmt: skip
"""Modules that run an operation of their own name, some through a Python function of that name."""

_CALLS = {
    "LeakyReLU": "leaky_relu", "SELU": "selu", "Softmax": "softmax", "LogSoftmax": "log_softmax",
    "Embedding": "embedding", "MSELoss": "mse_loss", "BCELoss": "binary_cross_entropy", "NLLLoss": "nll_loss",
    "CrossEntropyLoss": "cross_entropy", "Threshold": "_threshold",
}  # fmt: skip
"""Modules that pass their arguments on to one Python function."""

MODULES: dict[str, tuple[Mapping[str, Roles], set[str]]] = {
    **{name: ({name.lower(): _POINTWISE}, {name.lower()}) for name in _ACTIVATIONS},
    **{name: (PYTHON_FUNCTIONS[called], {called}) for name, called in _CALLS.items()},
    "PReLU": (FUNCTIONS["prelu"].operations, set()),
    "Linear": (FUNCTIONS["linear"].operations, set()),
    **{f"Conv{n}d": (_CONV.operations, {f"Conv{n}d._conv_forward"}) for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": (_CONV.operations, set()) for n in (1, 2)},
    "LayerNorm": (_NORM, {"layer_norm"}),
    "GroupNorm": (_NORM, {"group_norm"}),
    "_BatchNorm": (_NORM, {"batch_norm"}),
    "MaxPool2d": (PYTHON_FUNCTIONS["_max_pool2d"], {"boolean_dispatch.<locals>.fn", "_max_pool2d"}),
}
"""torch's modules, by the class whose ``forward`` ran: what its operations save, and the Python functions
that ``forward`` may run."""

MODULE_ARGUMENTS = ("input", "target")  # the tables' names for the arguments of a module's call
MODULE_TENSORS = frozenset({"weight", "bias", "running_mean", "running_var"})
"""Parameters and statistics that a module gives its function as the arguments of these names."""
