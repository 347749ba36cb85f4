"""Inputs that are guessed, gradients that are compared, and findings that are one."""

from __future__ import annotations

import types

import pytest
import torch
from torch import nn

from unclobber import UnclobberError
from unclobber.model import Finding, Site, Write
from unclobber.vetting import Vetting, WayResult, checked_ways, ways
from unclobber.vetting._case import Case, NotApplicableError, differing, in_short, loss_of, seeded
from unclobber.vetting._inputs import case_with_inputs
from unclobber.vetting._tiny import _shrunk


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Sequential(nn.Linear(5, 3)), (4, 5)),
        (nn.Conv2d(3, 4, 3), (2, 3, 32, 32)),
        (nn.Sequential(nn.Conv1d(6, 4, 3), nn.Flatten(), nn.Linear(120, 2)), (2, 6, 32)),
        (nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2)), (2, 7)),
        (nn.LSTM(4, 4), (2, 8, 4)),
        (nn.LayerNorm((3, 4)), (2, 8, 3, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_inputs_fit_the_first_layer(module, shape):
    assert case_with_inputs(module, "it").args[0].shape == shape


def test_each_required_parameter_gets_an_input():
    class Two(nn.Linear):
        def forward(self, x, y, scale=1):
            return super().forward(x) + y

    assert len(case_with_inputs(Two(4, 4), "it").args) == 2


def test_a_configuration_and_the_names_of_forward_say_the_inputs():
    """As for Transformers: labels and masks where they are taken."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = types.SimpleNamespace(vocab_size=40, to_dict=dict)
            self.embedding = nn.Embedding(40, 4)

        def forward(self, input_ids, attention_mask=None, labels=None):
            return {"loss": (self.embedding(input_ids)[..., 0] - labels).square().mean()}

    assert set(case_with_inputs(Model(), "it").kwargs) == {"input_ids", "attention_mask", "labels"}


def test_unknown_inputs_are_an_error_that_says_how_to_give_them():
    class Odd(nn.Linear):
        def forward(self, x):
            raise ValueError("17 columns")

    with pytest.raises(
        UnclobberError, match=r"(?s)guesses failed with ValueError: 17 columns; give them: `--inp"
    ):
        case_with_inputs(Odd(2, 2), "it")


@pytest.mark.filterwarnings("ignore:.*weight_norm` is deprecated:FutureWarning")
def test_a_copy_shares_nothing_and_takes_the_results_of_weight_norm():
    module = nn.utils.weight_norm(nn.Linear(3, 3))
    case = Case.of(module, torch.ones(1, 3))
    case.copy().loss().backward()
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_loss_is_the_outputs_own_or_has_a_part_of_each_tensor():
    own, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert loss_of({"loss": own.sum(), "logits": other}) == 2
    loss_of([own, {"deep": (other * 1j,)}, "text"]).backward()
    assert own.grad is not None
    assert other.grad is not None
    with pytest.raises(NotApplicableError, match="no output requires grad"):
        loss_of(torch.ones(2))


def test_gradients_differ_by_a_bit_or_by_more_than_rounding():
    one, bit = torch.tensor([1.0, float("nan")]), torch.tensor([1 + 2**-23, float("nan")])
    assert differing({"a": one, "b": None}, {"a": one.clone(), "b": None}) == ()
    assert differing({"a": one, "b": None}, {"a": bit, "b": one}) == ("a", "b")
    assert differing({"a": one}, {"a": bit}, exact=False) == ()
    assert differing({"a": one}, {"a": bit + 0.1}, exact=False) == ("a",)


def test_seeds_are_the_same_each_time_and_generators_go_on():
    with seeded():
        first = torch.rand(1)
    outside = torch.rand(1)
    with seeded():
        assert torch.equal(torch.rand(1), first)
    assert not torch.equal(torch.rand(1), outside)


def test_a_long_error_is_cut():
    assert in_short(ValueError("a\n  b")) == "ValueError: a b"
    assert len(in_short(ValueError("x" * 999))) == 200


def test_a_tiny_configuration_keeps_what_is_small_and_maps_token_ids():
    config = {"hidden_size": 768, "num_layers": 1, "vocab_size": 50000, "eos_token_id": 49999, "tie": True,
              "text_config": {"model_type": "t", "num_attention_heads": 12}}  # fmt: skip
    small = {"hidden_size": 32, "vocab_size": 128, "eos_token_id": 2,
             "text_config": {"model_type": "t", "num_attention_heads": 4}}  # fmt: skip
    assert _shrunk(config, "") == small
    assert _shrunk(config, "layer|vocab") == {
        "vocab_size": 128,
        "eos_token_id": 2,
        "text_config": {"model_type": "t"},
    }


def test_every_way_says_what_it_does():
    assert all(text[0].isupper() and not text.endswith(".") for text in checked_ways(ways).values())


def site(line, **more):
    return Site("/m/net.py", line, 1, line, 5, "forward", "x += 1", line, line, "x += 1", **more)


def test_findings_of_one_line_are_one_and_name_their_ways():
    def finding(line, function):
        return Finding("UC101", function, writes=(Write(site(line), "add_", True, True),))

    result = Vetting("net", (
        WayResult("leaf", "refused", findings=(finding(3, "a"),)),
        WayResult("lora", "refused", findings=(finding(3, "b"), finding(4, "c"))),
        WayResult("penalty", "crashed", "signal SIGSEGV"),
    ))  # fmt: skip
    assert [(f.message, f.notes) for f in result.findings] == [
        ("a", ("seen in 2 ways of training net: leaf and lora",)),
        ("c", ("seen in 1 way of training net: lora",)),
    ]
    assert len(result.faults) == 3
    assert repr(result).splitlines()[-1] == "penalty  crashed  signal SIGSEGV"
    assert [way["line"] for way in result.to_dict()["ways"]] == [3, 3, None]


def test_a_line_of_the_module_comes_before_one_of_torch():
    writes = tuple(Write(at, "add_", True, True) for at in (site(9, library=True), site(7)))
    assert WayResult("leaf", "refused", findings=(Finding("UC101", "a", writes=writes),)).line.line == 7
