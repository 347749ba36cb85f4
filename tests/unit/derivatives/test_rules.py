"""What operations keep, what may be overwritten, and how they are found by name."""

from __future__ import annotations

import json

import pytest
import torch

import unclobber
from torch_features import needs
from unclobber.derivatives import _measured
from unclobber.derivatives._measured import CALLS
from unclobber.derivatives.card import OperationRules
from unclobber.derivatives.rules import UnknownOperationError, all_names, resolve, rules


def variant(name: str, schema: str = ""):
    """The one overload of an operation whose schema starts so."""
    found = [v for v in rules(name).variants if v.schema.startswith(schema)]
    assert found
    return found[0]


def allowed(name: str, schema: str = "") -> dict[str, str]:
    return {one.name: one.allowed for one in variant(name, schema).overwrite}


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [
        ("exp", "", {"self": "yes", "result": "no"}),
        ("pow", "pow.Tensor_Scalar", {"self": "no", "result": "yes"}),
        ("mul", "mul.Scalar", {"self": "yes", "result": "yes"}),
        ("mul", "mul.Tensor", {"self": "depends", "other": "depends", "result": "yes"}),
        ("mm", "", {"self": "depends", "mat2": "depends", "result": "yes"}),
        ("sigmoid", "", {"self": "yes", "result": "no"}),
        ("add", "add.Tensor", {"self": "yes", "other": "yes", "result": "yes"}),
        ("relu", "", {"self": "yes", "result": "no"}),
        ("_softmax", "", {"self": "yes", "result": "no"}),
        ("_trilinear", "", {"i1": "depends", "i2": "depends", "i3": "depends", "result": "yes"}),
    ],
)
def test_what_may_be_overwritten(name, schema, expected):
    """The worked examples of the design: exp keeps its result, a square its input, 10*x neither."""
    assert allowed(name, schema) == expected


def refused(write: str) -> bool:
    """Whether torch refuses the backward of ``exp`` after a write to the tensor of this name."""
    w = torch.ones(3, requires_grad=True)
    u = w * 2
    e = u.exp()
    {"self": u, "result": e}[write].detach().zero_()
    try:
        e.sum().backward()
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("name", ["self", "result"])
def test_torch_agrees(name):
    """The answer for exp is torch's own."""
    assert refused(name) == (allowed("exp")[name] == "no")


@pytest.mark.parametrize(
    ("name", "schema", "keeps", "copies"),
    [
        ("exp", "", ("`self` as it has become: don't write it again",), False),
        ("elu", "", ("`self` as it has become: don't write it again",), False),
        ("pow", "pow.Tensor_Scalar", ("a private copy of the old `self`, so it spares no memory",), True),
        ("neg", "", (), False),
        (
            "mul",
            "mul.Tensor",
            (
                "a private copy of the old `self` if `other` needs a gradient, so it spares no memory",
                "`other` if `self` needs a gradient",
            ),
            True,
        ),
    ],
)
def test_in_place(name, schema, keeps, copies):
    """The in-place variant keeps the result, or a copy of what it overwrites, or nothing."""
    found = variant(name, schema).in_place
    assert found is not None
    assert (found.name, found.keeps, found.copies) == (f"{name}_", keeps, copies)


@pytest.mark.parametrize(("name", "schema"), [("mm", ""), ("pow", "pow.Scalar"), ("t", "")])
def test_no_in_place_variant(name, schema):
    """A product has none, a number can't be written, and a view's in-place form writes no memory."""
    assert variant(name, schema).in_place is None


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("exp_", "exp"),
        ("torch.exp", "exp"),
        ("Tensor.exp_", "exp"),
        ("aten::exp", "exp"),
        ("aten::add.Tensor", "add"),
        ("torch.ops.aten.exp.default", "exp"),
        ("AddmmBackward0", "addmm"),
        ("F.softmax", "softmax"),
        ("nn.Softmax", "softmax"),
        ("torch.nn.ReLU", "relu"),
        ("torch.linalg.inv", "linalg_inv"),
        ("nn.Conv2d", "conv2d"),
        ("__imul__", "mul"),
        ("+=", "add"),
        ("x *= 2", "mul"),
        ("a @ b", "matmul"),
        ("-x", "neg"),
        ("x[i] = v", "__setitem__"),
        ("x[0]", "__getitem__"),
        ("torch.exp(x)", "exp"),
        ("x.add_(1)", "add"),
        ("nn.LSTM", "nn.LSTM"),
        ("LSTM", "nn.LSTM"),
        ("torch.nn.MultiheadAttention", "nn.MultiheadAttention"),
        ("nn.ReLU(inplace=True)", "relu"),
        ("nn.functional.unfold", "im2col"),
        ("Tensor.unfold", "unfold"),
        ("sparse_addmm", "_sparse_addmm"),  # as a report names what has saved
        ("no_such_thing", None),
    ],
)
def test_spellings_are_found(spelling, name):
    """Whatever a user may call it."""
    assert resolve(spelling) == name


def test_spellings_exist():
    """Every spelling that is a name can be looked up in the installed torch."""
    for name in ("exp", "softmax", "mul", "linalg_inv", "conv2d", "special_erfcx", "im2col"):
        for text in rules(name).spellings:
            if text.startswith(("torch.", "Tensor.", "nn.")):
                path = text if text.startswith("torch.") else f"torch.{text}"
                value = torch
                for part in path.split(".")[1:]:
                    value = getattr(value, part)
                assert callable(value), text


def test_unknown_names_the_nearest():
    """A typing error is answered with what was meant."""
    with pytest.raises(UnknownOperationError) as raised:
        unclobber.rules("sofmax")
    assert raised.value.nearest[0] == "softmax"
    assert raised.value.exit_code == 2


def test_a_composed_function_is_run():
    """softmax has no derivative of its own: what it keeps was asked of a run."""
    found = rules("softmax")
    assert found.parts == ("_softmax",)
    assert found.variants == ()
    (call,) = found.calls
    assert (call.runs, call.keeps, call.keeps_own) == (("_softmax",), ("result",), 0)
    assert [(one.name, one.allowed) for one in call.overwrite] == [("input", "yes"), ("result", "no")]


@pytest.mark.parametrize("name", CALLS)
def test_each_example_runs(name):
    """Each call of the list runs on this torch, leaves the random numbers alone and names its tensors."""
    state = torch.random.get_rng_state()
    with torch.no_grad():
        calls = _measured.measured.__wrapped__(name)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert len(calls) == len(CALLS[name])
    for call, example in zip(calls, CALLS[name], strict=True):
        names = {one.name for one in call.overwrite}
        assert names >= {*(one.name for one in example.tensors), *example.results}
        assert resolve(name) == name


@pytest.mark.parametrize(
    ("name", "position", "expected"),
    [
        ("layer_norm", 0, {"input": "no", "weight": "no", "bias": "no", "result": "yes"}),
        ("conv2d", 0, {"input": "no", "weight": "no", "bias": "yes", "result": "yes"}),
        ("dropout", 0, {"input": "yes", "result": "yes"}),
        ("einsum", 0, {"a": "depends", "b": "depends", "result": "yes"}),
        ("cross_entropy", 0, {"input": "yes", "target": "no", "result": "yes"}),
        ("cross_entropy", 1, {"input": "yes", "target": "depends", "result": "yes"}),
        ("x[i] = v", 2, {"x": "yes", "mask": "no", "v": "yes", "result": "yes"}),
        ("nn.RNNCell", 0, {"input": "depends", "hx": "depends", "parameters": "depends", "result": "no"}),
    ],
)
def test_what_may_be_overwritten_after_a_call(name, position, expected):
    assert {one.name: one.allowed for one in rules(name).calls[position].overwrite} == expected


def test_what_torch_does_not_refuse_is_compared():
    """torch.kron keeps its arguments through views with counters of their own: a write to one changes the
    gradient of the other, and torch is silent."""
    a, b = (torch.ones(2, 2, requires_grad=True) for _ in "ab")
    factor = a * 1
    product = torch.kron(factor, b)
    factor.detach().add_(1)
    product.sum().backward()
    assert b.grad.unique().tolist() == [8.0]  # 4 would be right
    found = rules("kron").calls[0].overwrite
    assert [(one.name, one.allowed) for one in found] == [("a", "no"), ("b", "no"), ("result", "yes")]
    assert found[0].reason == "torch does not refuse, and the gradient is wrong"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pow", ["`self` is a tensor; `exponent` is a number", "`self` and `exponent` are tensors",
                 "`self` is a number; `exponent` is a tensor"]),
        ("mul", ["`other` is a tensor", "`other` is a number, in C++: Python makes a tensor of the number"]),
        ("exp", [""]),
        ("max", ["with `dim`", "with `self` alone"]),
        pytest.param(
            "sum",
            ["with `self` and `dtype` alone", "for nested tensors", "with `dim`", "for nested tensors"],
            marks=needs("sum of nested tensors"),
        ),
    ],
)  # fmt: skip
def test_when_an_overload_applies(name, expected):
    assert [one.when for one in rules(name).variants] == expected


def test_what_has_no_example_names_what_keeps():
    """And what keeps nothing says so."""
    assert rules("hstack").keepers == ()
    assert "keeps      nothing" in str(rules("hstack"))
    assert rules("linalg_svdvals").keepers[0] == ("_linalg_svd", ("U", "S", "Vh"))
    assert repr(rules("linalg_svdvals")) == str(rules("linalg_svdvals"))


CARD = """\
exp(Tensor self) -> Tensor                                          ExpBackward0
  keeps      result, always
  gradient   self = grad * result
  overwrite  self: yes
             result: no: the gradient of `self` reads it
  in place   exp_ keeps `self` as it has become: don't write it again
  Python     torch.exp, torch.exp_, Tensor.exp, Tensor.exp_"""


def test_card():
    """The whole card, to the last space."""
    assert str(rules("exp")) == CARD


def test_cards_fit():
    """No card is wider than 80 columns, but for words that can't be broken."""
    for name in all_names():
        for line in rules(name).lines():
            text = line.plain
            assert len(text) <= 80 or " " not in text.strip()[-60:], text


def test_documents():
    """Every operation can be written as JSON and as a row of Markdown."""
    some = [rules(name) for name in all_names()]
    assert len(some) > 700
    assert json.loads(json.dumps([one.to_dict() for one in some]))[0]["name"] == some[0].name
    rows = OperationRules.to_markdown(some).splitlines()
    assert len(rows) > len(some)
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
