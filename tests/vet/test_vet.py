"""``unclobber.vet``: planted faults are named in their ways, and clean modules in none."""

from __future__ import annotations

from pathlib import Path

import clean
import pytest
import torch
import vetted_faults as planted

import unclobber
from torch_features import needs
from unclobber.vetting._case import Case, differing
from unclobber.vetting._ways import WAYS

LINES = (Path(__file__).parent / "vetted_faults.py").read_text().splitlines()


def marked(way):
    """The line that a comment marks with the way's name."""
    (line,) = [number for number, text in enumerate(LINES, 1) if text.endswith(f"  # {way}")]
    return line


NEEDING = {"no-grad-first": needs("history of autocast's copies")}


@pytest.mark.parametrize("way", [pytest.param(way, marks=NEEDING.get(way, ())) for way in unclobber.ways])
def test_a_planted_fault_is_named_with_the_modules_line(way):
    (result,) = unclobber.vet(*planted.made(way), way).results
    assert result.is_fault
    assert result.findings[0].code == planted.FAULTS[way][1]
    assert (Path(result.line.path).name, result.line.line) == ("vetted_faults.py", marked(way))


@pytest.mark.parametrize("way", [way for way in unclobber.ways if way not in ("plain", "compiled")])
def test_a_planted_fault_is_none_of_the_plain_step(way):
    """So `vet` sees what a training script alone would not."""
    assert not unclobber.vet(*planted.made(way), "plain").faults


NUMBERED = list(enumerate(clean.MODULES))


@pytest.mark.parametrize("way", [way for way in unclobber.ways if way != "compiled"])
def test_clean_modules_have_no_fault(way):
    """Five modules for each way, so that each is tried in four; the sweep tries all."""
    start = unclobber.ways.index(way)
    for number, name in NUMBERED:
        if (number + start) % 4 == 0:
            assert not unclobber.vet(*clean.made(name), way).faults, name


@pytest.mark.sweep
@pytest.mark.parametrize("name", clean.MODULES)
def test_a_clean_module_has_no_fault_in_any_way(name):
    assert not unclobber.vet(*clean.made(name)).faults


def test_a_gru_is_silently_wrong_under_selective_checkpointing():
    """A fault of torch's: its kernel on the CPU writes into chunks of a cached product and no counter moves.

    The gradients of guard are those without checkpointing, to the last bit; plain ones are off by percents.
    """
    module, inputs = clean.Recurrent(torch.nn.GRU), torch.ones(2, 5, 4)
    (result,) = unclobber.vet(module, inputs, "checkpoint-selective").results
    assert (result.verdict, [finding.code for finding in result.findings]) == ("silent", ["UC105"])
    assert Path(result.line.path).name == "clean.py"
    case = Case.of(module, inputs)
    right = WAYS["plain"](case.copy()).gradients()
    with unclobber.guard():
        assert not differing(WAYS["checkpoint-selective"](case.copy()).gradients(), right)
    wrong = WAYS["checkpoint-selective"](case.copy()).gradients()
    assert differing(wrong, right, exact=False) == result.differing


def test_an_rnn_is_refused_under_selective_checkpointing():
    """A fault of torch's, too: its kernel on the CPU adds to a cached product, whose counter moves here."""
    (result,) = unclobber.vet(
        clean.Recurrent(torch.nn.RNN), torch.ones(2, 5, 4), "checkpoint-selective"
    ).results
    assert (result.verdict, [finding.code for finding in result.findings]) == ("refused", ["UC105"])
    assert {write.operation for write in result.findings[0].writes} == {"add_"}


def test_the_module_and_its_generators_stay_as_they_are():
    module, inputs = planted.made("two-forwards")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    unclobber.vet(module, inputs, ["two-forwards", "bfloat16"])
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_what_torch_can_not_differentiate_twice_is_not_applicable():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Hardsigmoid())
    (result,) = unclobber.vet(module, planted.inputs(), "penalty").results
    assert (result.verdict, result.is_fault) == ("not applicable", False)
    assert "hardsigmoid_backward is not implemented" in result.reason


def test_a_module_with_random_values_of_its_own_is_not_judged():
    """Two plain runs differ, so a difference from guard's says nothing."""

    calls = []

    class Clock(planted.Net):
        def forward(self, x):
            calls.append(x)
            return self.layer(x) * len(calls)

    (result,) = unclobber.vet(Clock(), planted.inputs(), "plain").results
    assert result.verdict == "not applicable"
    assert "different gradients" in result.reason


def test_a_suppressed_finding_is_no_fault():
    class Norm(planted.EvalThenTrain):
        def forward(self, x):
            return self.norm(self.layer(x))  # unclobber: ignore[UC102]

    (result,) = unclobber.vet(Norm(), planted.inputs(), "eval-then-train").results
    assert (result.verdict, result.findings) == ("fine", ())
    assert "suppressed" in result.reason


def test_an_unknown_way_is_named_with_all_ways():
    with pytest.raises(unclobber.UnclobberError, match="no way 'lroa'; the ways are plain, leaf"):
        unclobber.vet(*planted.made("leaf"), "lroa")


def test_the_repr_is_a_table_and_each_line_is_one_finding():
    result = unclobber.vet(*planted.made("leaf"), ["plain", "leaf", "input-reused"])
    line = marked("leaf")
    assert repr(result).splitlines() == [
        "way           verdict  Leaf",
        "plain         fine",
        f"leaf          refused  UC201 vetted_faults.py:{line}",
        f"input-reused  refused  UC101 vetted_faults.py:{line}",
    ]
    assert [finding.code for finding in result.findings] == ["UC201", "UC101"]
    assert result.findings[0].notes[-1] == "seen in 1 way of training Leaf: leaf"
