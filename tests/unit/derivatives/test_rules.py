"""What operations keep, what may be overwritten, and how they are found by name."""

from __future__ import annotations

import json

import pytest
import torch

import unclobber
from unclobber.derivatives.card import card, lines, to_dict, to_markdown
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
        ("nn.functional.unfold", "im2col"),
        ("Tensor.unfold", "unfold"),
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


def test_a_composed_function_names_its_parts():
    """softmax has no derivative of its own."""
    found = rules("softmax")
    assert found.parts == ("_softmax",)
    assert found.variants == ()


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
    assert card(rules("exp")) == CARD == str(rules("exp"))


def test_cards_fit():
    """No card is wider than 80 columns, but for words that can't be broken."""
    for name in all_names():
        for line in lines(rules(name)):
            text = "".join(piece.text for piece in line)
            assert len(text) <= 80 or " " not in text.strip()[-60:], text


def test_documents():
    """Every operation can be written as JSON and as a row of Markdown."""
    some = [rules(name) for name in all_names()]
    assert len(some) > 700
    assert json.loads(json.dumps([to_dict(one) for one in some]))[0]["name"] == some[0].name
    rows = to_markdown(some).splitlines()
    assert len(rows) > len(some)
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
