"""Readable formulas are the derivative: each is evaluated and compared with autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from unclobber.derivatives import by_node
from unclobber.derivatives._formulas import readable

ONE = torch.tensor([[0.3, -0.7, 1.4], [0.9, -1.8, 0.25]], dtype=torch.float64)
POSITIVE = ONE.abs() + 0.1
INSIDE = ONE / 2
OTHER = torch.tensor([[1.3, 0.7, -1.1], [2.9, 0.8, 1.25]], dtype=torch.float64)
SQUARE = torch.tensor([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.1, 0.2, 1.1]], dtype=torch.float64)

CASES: list[tuple[str, Callable[..., torch.Tensor], tuple[torch.Tensor, ...], dict[str, Any]]] = [
    *[
        (f"{name.title().replace('_', '')}Backward0", getattr(torch, name), (value,), {})
        for name, value in [
            ("exp", ONE),
            ("exp2", ONE),
            ("expm1", ONE),
            ("sigmoid", ONE),
            ("tanh", ONE),
            ("abs", ONE),
            ("sin", ONE),
            ("cos", ONE),
            ("tan", ONE),
            ("sinh", ONE),
            ("cosh", ONE),
            ("asinh", ONE),
            ("atan", ONE),
            ("asin", INSIDE),
            ("acos", INSIDE),
            ("atanh", INSIDE),
            ("acosh", POSITIVE + 1),
            ("log", POSITIVE),
            ("log2", POSITIVE),
            ("log10", POSITIVE),
            ("sqrt", POSITIVE),
            ("rsqrt", POSITIVE),
            ("reciprocal", POSITIVE),
            ("erf", ONE),
            ("erfc", ONE),
            ("erfinv", INSIDE),
            ("lgamma", POSITIVE),
            ("relu", ONE),
            ("i0", ONE),
        ]
    ],
    ("Log1PBackward0", torch.log1p, (POSITIVE,), {}),
    ("SiluBackward0", functional.silu, (ONE,), {}),
    ("MulBackward0", torch.mul, (ONE, OTHER), {}),
    ("DivBackward0", torch.div, (ONE, OTHER), {}),
    ("PowBackward0", lambda x: x**3, (ONE,), {"exponent": 3}),
    ("PowBackward1", torch.pow, (POSITIVE, OTHER), {}),
    ("PowBackward2", lambda x: 2.5**x, (ONE,), {"self": torch.tensor(2.5, dtype=torch.float64)}),
    ("MmBackward0", torch.mm, (ONE, SQUARE), {}),
    (
        "AddmmBackward0",
        lambda b, m, n: torch.addmm(b, m, n, alpha=3),
        (OTHER, ONE, SQUARE),
        {"alpha": 3, "beta": 1},
    ),
    ("BmmBackward0", torch.bmm, (ONE[None], SQUARE[None]), {}),
    ("BaddbmmBackward0", torch.baddbmm, (OTHER[None], ONE[None], SQUARE[None]), {"alpha": 1, "beta": 1}),
    ("MvBackward0", torch.mv, (SQUARE, ONE[0]), {}),
    ("AddmvBackward0", torch.addmv, (ONE[1], SQUARE, ONE[0]), {"alpha": 1, "beta": 1}),
    ("AddrBackward0", torch.addr, (SQUARE, ONE[0], ONE[1]), {"alpha": 1, "beta": 1}),
    ("DotBackward0", torch.dot, (ONE[0], OTHER[0]), {}),
    ("AddcmulBackward0", torch.addcmul, (ONE, OTHER, POSITIVE), {"value": 1}),
    ("AddcdivBackward0", torch.addcdiv, (ONE, OTHER, POSITIVE), {"value": 1}),
    ("HypotBackward0", torch.hypot, (ONE, OTHER), {}),
    ("LerpBackward1", torch.lerp, (ONE, OTHER, POSITIVE), {}),
    ("LogaddexpBackward0", torch.logaddexp, (ONE, OTHER), {}),
    ("MaximumBackward0", torch.maximum, (ONE, OTHER), {}),
    ("MinimumBackward0", torch.minimum, (ONE, OTHER), {}),
    ("WhereBackward0", lambda a, b: torch.where(a > b, a, b), (ONE, OTHER), {"condition": ONE > OTHER}),
    ("ClampBackward1", lambda x: x.clamp(-0.5, 0.5), (ONE,), {"min": -0.5, "max": 0.5}),
    (
        "HardtanhBackward0",
        lambda x: functional.hardtanh(x, -0.5, 0.5),
        (ONE,),
        {"min_val": -0.5, "max_val": 0.5},
    ),
    ("LeakyReluBackward0", lambda x: functional.leaky_relu(x, 0.2), (ONE,), {"negative_slope": 0.2}),
    ("ThresholdBackward0", lambda x: functional.threshold(x, 0.2, 0.0), (ONE,), {"threshold": 0.2}),
    ("SoftmaxBackward0", lambda x: x.softmax(1), (ONE,), {"dim": 1}),
    ("LogSoftmaxBackward0", lambda x: x.log_softmax(1), (ONE,), {"dim": 1}),
    ("LogsumexpBackward0", lambda x: x.logsumexp(1, keepdim=True), (ONE,), {}),
    ("ProdBackward0", torch.prod, (ONE,), {}),
    ("MaxBackward1", torch.max, (ONE,), {}),
    ("MinBackward1", torch.min, (ONE,), {}),
    ("VarBackward0", lambda x: x.var(1, keepdim=True), (ONE,), {"dim": 1, "N": 3, "correction": 1}),
    ("StdBackward0", lambda x: x.std(1, keepdim=True), (ONE,), {"dim": 1, "N": 3, "correction": 1}),
    ("LinalgVectorNormBackward0", lambda x: torch.linalg.vector_norm(x, 3), (ONE,), {"ord": 3}),
    ("LinalgVectorNormBackward0", torch.linalg.vector_norm, (ONE,), {"ord": 2}),
    ("DistBackward0", torch.dist, (ONE, OTHER), {"p": 2}),
]


def evaluate(text: str, values: dict[str, Any]) -> torch.Tensor:
    # `self` and all functions by torch's names; nothing of Python's own is needed.
    scope = {**vars(torch), "pi": math.pi, "special_i1": torch.special.i1, **values}
    for name in ("sqrt", "log"):
        function = getattr(torch, name)
        scope[name] = lambda x, f=function: f(torch.as_tensor(x, dtype=torch.float64))
    return eval(text, {"__builtins__": {}}, scope)


def compare(
    node: str, function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], extra: dict[str, Any]
) -> int:
    """Evaluate every formula of the node that can be read; the number of those compared."""
    rule = by_node(node)
    assert rule is not None
    leaves = [value.clone().requires_grad_() for value in inputs]
    result = function(*leaves)
    assert result.grad_fn is not None
    assert result.grad_fn.name() == node
    grad = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).reshape(result.shape)
    expected = torch.autograd.grad(result, leaves, grad)
    # Constants given by the case stand for arguments that were not passed as tensors.
    names = [name for name in rule.differentiable if name not in extra]
    assert len(names) == len(leaves)
    values = {"result": result.detach(), "grad": grad, **extra}
    values.update((name, leaf.detach()) for name, leaf in zip(names, leaves, strict=True))
    compared = 0
    for gradient in rule.gradients:
        text = readable(gradient.formula)
        if text is None or "′" in text or gradient.of[0] in extra:
            continue
        actual = evaluate(text, values)
        torch.testing.assert_close(
            actual.expand_as(values[gradient.of[0]]), expected[names.index(gradient.of[0])]
        )
        compared += 1
    return compared


@pytest.mark.parametrize(("node", "function", "inputs", "extra"), CASES, ids=[case[0] for case in CASES])
def test_a_readable_formula_is_the_derivative(node, function, inputs, extra):
    """Evaluated as Python over torch, the text gives the gradient that autograd gives."""
    assert compare(node, function, inputs, extra) > 0


def test_comparing_can_fail():
    """A wrong value for what the formula reads is noticed."""
    with pytest.raises(AssertionError):
        compare("PowBackward0", lambda x: x**3, (ONE,), {"exponent": 2})


@pytest.mark.parametrize(
    "formula",
    [
        "some_backward(grad, self)",
        "div_tensor_self_backward(grad, other, self.scalar_type(), rounding_mode)",
        "upper ? grad.triu() : grad.tril()",
        "grad.frobnicate(self)",
        "grad * (self",
    ],
)
def test_what_cannot_be_read_in_full_is_not_read_at_all(formula):
    """Half a formula would be a false one."""
    assert readable(formula) is None


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("grad * result.conj()", "grad * result"),
        (
            "mm_mat1_backward(grad, mat2, a.sym_sizes(), a.sym_strides(), a.layout(), alpha)",
            "alpha * (grad @ mat2.T)",
        ),
        (
            "GradMode::is_enabled() ? slow(grad, self) : silu_backward(grad, self)",
            "grad * sigmoid(self) * (1 + self * (1 - sigmoid(self)))",
        ),
        ("mul_tensor_backward(grad, self - other, x.scalar_type())", "grad * (self - other)"),
        ("self.is_complex() ? a : b", "b"),
        ("(self.is_complex() ? a : grad * (b)) ", "grad * b"),
        ("(grad * a) * (self.is_complex() ? b : c)", None),
        ("maybe_multiply(grad.ger(vec.conj()), alpha.conj())", "alpha * outer(grad, vec)"),
    ],
)
def test_notation(formula, text):
    """C++ becomes the Python that a reader would write."""
    assert readable(formula) == text
