"""The table agrees with what autograd keeps, and a missing table is no accident."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from unclobber.derivatives import Reasons, by_node, by_operation
from unclobber.derivatives import torch_table as derivatives
from unclobber.derivatives.torch_table import table


def kept_roles(result: torch.Tensor) -> dict[str, object]:
    node = result.grad_fn
    roles = {name.removeprefix("_saved_") for name in dir(node) if name.startswith("_saved_")}
    return {
        role: getattr(node, f"_saved_{role}")
        for role in roles
        if hasattr(node, f"_raw_saved_{role}") and getattr(node, f"_saved_{role}") is not None
    }


A = torch.rand(3, 3) + 0.5
B = torch.rand(3, 3) + 0.5
FUNCTIONS = {
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "mm": lambda a, b: a.mm(b),
    "sub": lambda a, b: a - b,
    "pow": lambda a, b: a**b,
    "maximum": torch.maximum,
    "atan2": torch.atan2,
    "mse": functional.mse_loss,
    "addcmul": lambda a, b: torch.addcmul(a, b, b),
    "lerp": lambda a, b: torch.lerp(a, b, B),
    "dist": torch.dist,
    "prelu": lambda a, b: torch._prelu_kernel(a, b),
    "copysign": torch.copysign,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("requires", [(True, True), (True, False), (False, True)])
def test_conditions_are_what_autograd_does(name, requires):
    """A tensor is kept exactly when the table says, for each choice of gradients."""
    result = FUNCTIONS[name](A.clone().requires_grad_(requires[0]), B.clone().requires_grad_(requires[1]))
    node = result.grad_fn
    if node is None or by_node(node.name()) is None:
        pytest.skip("no derivative for this choice")
    rule = by_node(node.name())
    needed = rule.needed([function for function, _ in node.next_functions])
    expected = {kept.role for kept in rule.kept if not kept.only_if or needed.intersection(kept.only_if)}
    assert set(kept_roles(result)) == expected


def test_facts_of_mul():
    """Each factor is kept for the gradient of the other, and only then."""
    (rule, _) = by_operation("mul")
    assert [(kept.role, kept.gradients, kept.only_if) for kept in rule.kept] == [
        ("self", ("other",), ("other",)),
        ("other", ("self",), ("self",)),
    ]
    assert rule.node == "MulBackward0"
    assert rule.schema == "mul.Tensor(Tensor self, Tensor other) -> Tensor"


def test_the_table_is_whole():
    """Torch's table has hundreds of operations, and most keep a tensor."""
    rules = table()
    assert len(rules) > 600
    assert sum(any(not kept.output for kept in rule.kept) for rule in rules) > 300
    assert sum(any(kept.output for kept in rule.kept) for rule in rules) > 100


def test_exp_keeps_its_result_and_not_its_input():
    (rule,) = by_operation("aten::exp_")
    assert [(kept.role, kept.output) for kept in rule.kept] == [("result", True)]


def test_named_outputs():
    """An output is called as on the node."""
    assert by_node("MaxBackward0").returns == ("values", "indices")
    assert by_node("NativeLayerNormBackward0").returns == ("result0", "result1", "result2")


def test_lists_do_not_line_up_with_edges():
    """Which edge belongs to which argument is unknown where an argument is a list of tensors."""
    node = torch.cat([A.clone().requires_grad_(), B, A]).grad_fn
    rule = by_node(node.name())
    assert rule.needed([edge for edge, _ in node.next_functions]) is None


@pytest.fixture
def _not_read_yet():
    """The table is read anew, here and afterwards."""
    yield derivatives._table.cache_clear()
    derivatives._table.cache_clear()


@pytest.mark.usefixtures("_not_read_yet")
def test_an_unreadable_table_is_empty(monkeypatch):
    """No yaml, no PyYAML, another torchgen: answers are None, nothing is raised."""

    def broken():
        raise ModuleNotFoundError("yaml")

    monkeypatch.setattr(derivatives, "_read", broken)
    assert table() == ()
    assert by_node("MmBackward0") is None
    assert Reasons("MmBackward0", "self").in_torch_names() is None


@pytest.mark.usefixtures("_not_read_yet")
@pytest.mark.parametrize("error", [RecursionError, MemoryError, SystemError])
def test_what_fails_at_one_moment_is_read_at_the_next(monkeypatch, error):
    """Little stack is left where the first question is asked: later ones have their answer."""

    def out_of_stack():
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(derivatives, "_read", out_of_stack)
        assert table() == ()
        assert by_node("MmBackward0") is None
    assert by_node("MmBackward0").operation == "mm"
