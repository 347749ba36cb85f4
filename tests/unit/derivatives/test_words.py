"""Why a tensor is needed, in torch's names and in the user's."""

from __future__ import annotations

import pytest

from unclobber.derivatives import Reasons
from unclobber.derivatives.torch_table import table


@pytest.mark.parametrize(
    ("node", "role", "needed", "text"),
    [
        ("MmBackward0", "self", None, "grad of mat2 = self.T @ grad"),
        (
            "DivBackward0",
            "other",
            None,
            "grad of other = -grad * self / other ** 2; grad of self = grad / other",
        ),
        ("DivBackward0", "other", {"self"}, "grad of self = grad / other"),
        ("ReluBackward0", "result", None, "grad of self = grad * (result > 0)"),
        ("IndexBackward0", "indices[0]", None, "grad of self is grad added at these indices"),
        ("ConvolutionBackward0", "weight", {"input"}, "grad of input is grad convolved back with the weight"),
        ("HardshrinkBackward0", "self", None, "grad of self = grad * hardshrink′(self)"),
        (
            "RenormBackward0",
            "self",
            None,
            "the derivative with respect to self reads it "
            "(torch formula: renorm_backward(grad, self, p, dim, maxnorm))",
        ),
        ("ReflectionPad1DBackward0", "self", None, "backward reads its shape alone"),
        ("MmBackward0", "nothing", None, None),
        ("NoSuchBackward0", "self", None, None),
    ],
)
def test_why(node, role, needed, text):
    """One reason per gradient that is computed."""
    assert Reasons(node, role, needed).in_torch_names() == text


@pytest.mark.parametrize(
    ("node", "role", "names", "text"),
    [
        ("MmBackward0", "self", {"self": "d", "mat2": "w2"}, "grad of `w2` is dᵀ @ grad"),
        ("MmBackward0", "self", {"self": "a + b", "mat2": "w"}, "grad of `w` is (a + b)ᵀ @ grad"),
        ("MmBackward0", "mat2", {"self": "d", "mat2": "w.T"}, "grad of `d` is grad @ w"),
        ("BmmBackward0", "mat2", {"self": "q", "mat2": "k.transpose(1, 2)"}, "grad of `q` is grad @ k"),
        ("MmBackward0", "self", {"self": "w.T[0]", "mat2": "m"}, "grad of `m` is w.T[0]ᵀ @ grad"),
        ("ReluBackward0", "result", {"result": "h"}, "grad of its input is grad * (h > 0)"),
        ("PowBackward0", "self", {"self": "a - b", "exponent": "2"}, "grad of `a - b` is grad * 2 * (a - b)"),
        ("MmBackward0", "self", {"self": "d"}, "grad of its other operand is dᵀ @ grad"),
        ("AddmmBackward0", "mat1", {"mat1": "x", "mat2": "w", "alpha": "1"}, "grad of `w` is xᵀ @ grad"),
        ("ExpBackward0", "result", {"result": "e"}, "the derivative of exp is its own result"),
        ("PowBackward0", "self", {"self": "u", "exponent": "2"}, "grad of `u` is grad * 2 * u"),
        ("PowBackward0", "self", {"self": "u", "exponent": "3"}, "grad of `u` is grad * 3 * u ** 2"),
        ("PowBackward0", "self", {"self": "u", "exponent": "k"}, "grad of `u` is grad * k * u ** (k - 1)"),
        ("MulBackward0", "other", {"self": "a", "other": "b"}, "grad of `a` is grad * b"),
        ("SigmoidBackward0", "result", {"self": "a", "result": "o"}, "grad of `a` is grad * o * (1 - o)"),
        # What the reader can't see is not put in front of them.
        ("LinalgVectorNormBackward0", "self", {"self": "x"}, "its own gradient is computed from it"),
        ("HypotBackward0", "self", {"self": "x"}, "its own gradient is computed from it"),
        (
            "IndexBackward0",
            "indices[0]",
            {"indices[0]": "idx", "self": "x"},
            "grad of `x` is grad added at these indices",
        ),
        (
            "ScaledDotProductFlashAttentionForCpuBackward0",
            "key",
            {"query": "q", "key": "k", "value": "v"},
            "grad of `q`, `k` and `v` needs the attention weights, which are computed again from it",
        ),
        (
            "MkldnnRnnLayerBackward0",
            "weight0",
            {"weight0": "lstm.weight_ih_l0"},
            "what computes grad of its input, `lstm.weight_ih_l0`, the layer's parameters and its state "
            "reads `lstm.weight_ih_l0`",
        ),
        ("MmBackward0", "self", {"mat2": "w2"}, None),
        ("NoSuchBackward0", "self", {"self": "x"}, None),
    ],
)
def test_why_words(node, role, names, text):
    """The user's expressions stand where torch's names stood."""
    assert Reasons(node, role).in_names(names) == text


@pytest.mark.parametrize(
    ("needed", "text", "of"),
    [
        (None, "grad of `x` is grad convolved back with the weight", ("input",)),
        ({"input"}, "grad of `x` is grad convolved back with the weight", ("input",)),
        ({"weight", "bias"}, "only the gradient of `x` reads it, which is not computed", ()),
    ],
)
def test_what_no_computed_gradient_reads(needed, text, of):
    """A convolution keeps its weight always, and only the gradient of its input is made from it."""
    reasons = Reasons("ConvolutionBackward0", "weight", needed)
    assert reasons.in_names({"weight": "w", "input": "x"}) == text
    assert reasons.read_for == of


def test_every_rule_has_a_reason():
    """Nothing is kept without a derivative that reads it, and none of the answers fails."""
    for rule in table():
        for kept in rule.kept:
            if rule.node is not None and rule.key == "Default":
                reasons = Reasons(rule.node, kept.role)
                assert reasons.in_torch_names()
                assert reasons.in_names({kept.role: "t"})
