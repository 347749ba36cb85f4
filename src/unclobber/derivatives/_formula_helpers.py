"""torch's C++ helper functions of the derivative table, in readable notation.

``mm_mat2_backward(grad, self, sizes, strides, layout, alpha)`` has no visible formula; here it is ``self.T @
grad``. Each entry was derived by hand. Those in ``FORMULAS`` are Python expressions over torch, and the tests
evaluate them against autograd. Those in ``SLOPES`` only name the function whose slope is meant. Tensors are
taken to be real: complex ones add a conjugate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Arguments = Sequence[str]


def _scaled(expression: str, factor: str) -> str:
    return expression if factor == "1" else f"{factor} * ({expression})"


def _reduced(a: Arguments) -> str:
    return f"{a[0]} * ({a[1]} == {a[2]}) / ({a[1]} == {a[2]}).sum()"


def _elu(a: Arguments) -> str:
    if a[4] == "False":
        return f"{a[0]} * elu′({a[5]})"
    return f"{a[0]} * where({a[5]} <= 0, {a[3]} * ({a[5]} + {a[1]} * {a[2]}), {a[2]})"


def _norm(a: Arguments) -> str:
    return f"{a[0]} * sign({a[1]}) * (abs({a[1]}) / {a[3]}) ** ({a[2]} - 1)"


FORMULAS: dict[str, Callable[[Arguments], str]] = {
    "handle_r_to_c": lambda a: a[1],
    "masked_fill_inplace_if_safe": lambda a: f"{a[0]}.masked_fill_({a[1]}, {a[2]})",  # since 2.14
    "maybe_multiply": lambda a: _scaled(a[0], a[1]),
    "mm_mat1_backward": lambda a: _scaled(f"{a[0]} @ {a[1]}.T", a[5]),
    "mm_mat2_backward": lambda a: _scaled(f"{a[1]}.T @ {a[0]}", a[5]),
    "mul_tensor_backward": lambda a: f"{a[0]} * {a[1]}",
    "div_tensor_self_backward": lambda a: f"{a[0]} / {a[1]}" if len(a) == 3 else "",
    "div_tensor_other_backward": lambda a: f"-{a[0]} * {a[1]} / {a[2]} ** 2" if len(a) == 3 else "",
    "pow_backward": lambda a: f"{a[0]} * {a[2]} * {a[1]} ** ({a[2]} - 1)",
    "pow_backward_self": lambda a: f"{a[0]} * {a[2]} * {a[1]} ** ({a[2]} - 1)",
    "pow_backward_exponent": lambda a: f"{a[0]} * {a[3]} * log({a[1]})",
    "sigmoid_backward": lambda a: f"{a[0]} * {a[1]} * (1 - {a[1]})",
    "tanh_backward": lambda a: f"{a[0]} * (1 - {a[1]} ** 2)",
    "threshold_backward": lambda a: f"{a[0]} * ({a[1]} > {a[2]})",
    "leaky_relu_backward": lambda a: f"where({a[1]} > 0, {a[0]}, {a[0]} * {a[2]})",
    "hardtanh_backward": lambda a: f"{a[0]} * (({a[1]} > {a[2]}) & ({a[1]} < {a[3]}))",
    "clamp_backward": lambda a: f"{a[0]} * (({a[1]} >= {a[2]}) & ({a[1]} <= {a[3]}))",
    "silu_backward": lambda a: f"{a[0]} * sigmoid({a[1]}) * (1 + {a[1]} * (1 - sigmoid({a[1]})))",
    "elu_backward": _elu,
    "_softmax_backward_data": lambda a: f"{a[1]} * ({a[0]} - ({a[0]} * {a[1]}).sum({a[2]}, keepdim=True))",
    "_log_softmax_backward_data": lambda a: f"{a[0]} - exp({a[1]}) * {a[0]}.sum({a[2]}, keepdim=True)",
    "logsumexp_backward": lambda a: f"{a[0]} * exp({a[1]} - {a[2]})",
    "var_backward": lambda a: f"{a[0]} * 2 * ({a[1]} - {a[1]}.mean({a[2]}, keepdim=True)) / (N - correction)",
    "std_backward": lambda a: (
        f"{a[1]} * ({a[2]} - {a[2]}.mean({a[3]}, keepdim=True)) / ((N - correction) * {a[0]})"
    ),
    "norm_backward": _norm,
    "linalg_vector_norm_backward": _norm,
    "prod_backward": lambda a: f"{a[0]} * {a[2]} / {a[1]}",
    "evenly_distribute_backward": _reduced,
    "log1p_backward": lambda a: f"{a[0]} / ({a[1]} + 1)",
    "native_dropout_backward": lambda a: f"{a[0]} * {a[1]} * scale",
    "_fused_dropout_backward": lambda a: f"{a[0]} * {a[1]} / (1 - {a[2]})",
}
"""By helper, the function from its call's arguments to the expression; an empty one if this form isn't
covered."""


def _slope(name: str) -> Callable[[Arguments], str]:
    return lambda a: f"{a[0]} * {name}′({a[1]})"


SLOPES: dict[str, Callable[[Arguments], str]] = {
    f"{name}_backward": _slope(name.replace("log_", "log"))
    for name in (
        *("gelu", "mish", "softplus", "hardswish", "hardsigmoid", "hardshrink", "softshrink"),
        "log_sigmoid",
    )
}
"""Helpers that multiply by a slope too long to write out."""


Reasons = tuple[tuple[str, str], ...]
Prose = dict[str, dict[str, Reasons]]

_MOMENTS: dict[str, Reasons] = {
    "input": (
        ("input", "is computed with the normalised input"),
        ("weight", "is computed with the normalised input"),
    ),
    "weight": (("input", "is computed from grad * {weight}"),),
}

_CONVOLUTION: dict[str, Reasons] = {
    "input": (("weight", "is the input correlated with grad"),),
    "weight": (("input", "is grad convolved back with the weight"),),
}

_AGAIN = "needs the attention weights, which are computed again from it"

# The fused kernels save no attention weights: they compute softmax(query @ keyᵀ) again.
_ATTENTION: dict[str, Reasons] = {
    "query": (("query", _AGAIN), ("key", _AGAIN), ("value", _AGAIN)),
    "key": (("query", _AGAIN), ("key", _AGAIN), ("value", _AGAIN)),
    "value": (("query", "is computed from grad @ {value}ᵀ"), ("key", "is computed from grad @ {value}ᵀ")),
}

_PLACED: Reasons = (("self", "is grad added at these indices"),)
_CHOSEN: Reasons = (("self", "is grad put at the positions that were chosen"),)
_TIES: Reasons = (("self", "is grad where {self} equals {result}, shared among ties"),)

_COMPARED: Reasons = tuple(
    (name, "is grad where it was taken, shared among ties") for name in ("self", "other")
)

_DIFFERENCES: Reasons = (
    ("self", "is proportional to {self} - {target}"),
    ("target", "is proportional to {target} - {self}"),
)


def _each(operations: str, roles: dict[str, Reasons]) -> Prose:
    return dict.fromkeys(operations.split(), roles)


PROSE: Prose = {
    **_each("convolution _convolution", _CONVOLUTION),
    **_each("native_layer_norm native_batch_norm native_group_norm cudnn_batch_norm", _MOMENTS),
    **_each(
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
        "_scaled_dot_product_efficient_attention",
        _ATTENTION,
    ),
    **_each("index _unsafe_index", {"indices": _PLACED}),
    **_each("gather index_select take", {"index": _PLACED}),
    "embedding": {"indices": (("weight", "has the rows of grad added at these indices"),)},
    **_each("max min median nanmedian kthvalue mode sort topk", {"indices": _CHOSEN}),
    **_each("max_pool2d_with_indices max_pool3d_with_indices", {"result1": _CHOSEN}),
    **_each("maximum minimum", dict.fromkeys(("self", "other"), _COMPARED)),
    "masked_select": {"mask": (("self", "is grad put where the mask is set"),)},
    **_each("amax amin", {"self": _TIES, "result": _TIES}),
    "mse_loss": {"self": _DIFFERENCES, "target": _DIFFERENCES},
}
"""By operation and role, the gradients that read it, and how, completing "grad of … ". For formulas that
compute several gradients at once or only move values. Braces hold torch's names."""

JOINT: Prose = {
    "linear": {"input": (("weight", "grad.T @ input"),), "weight": (("input", "grad @ weight"),)},
    "_prelu_kernel": {
        "self": (
            ("self", "where(self > 0, grad, weight * grad)"),
            ("weight", "where(self > 0, 0, self * grad)"),
        ),
        "weight": (("self", "where(self > 0, grad, weight * grad)"),),
    },
    "atan2": dict.fromkeys(
        ("self", "other"),
        (
            ("self", "grad * other / (self ** 2 + other ** 2)"),
            ("other", "-grad * self / (self ** 2 + other ** 2)"),
        ),
    ),
}
"""Formulas by operation and role, if torch's own formula computes several gradients at once."""
