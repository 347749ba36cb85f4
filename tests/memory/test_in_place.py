"""What in-place buys: predicted on the timeline, proved by a second run."""

from __future__ import annotations

import pytest
import torch

import unclobber
from unclobber.footprint import InPlaceCandidate, _places
from unclobber.footprint._recorder import EnoughError, MemoryRecorder
from unclobber.footprint.savings._attempts import Attempts

HEAD = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
w = torch.randn(200, 200, requires_grad=True)
x = torch.randn(300, 200)
"""
SIZE = 300 * 200 * 4


def candidates(report) -> set[str]:
    return {one["operation"] for one in report["candidates"]}


def test_leaky_relu_pays(measured):
    """In place it keeps its result instead of its input: the predicted drop is the measured one."""
    code, report = measured(HEAD + "y = F.leaky_relu(x @ w)\n(y @ w).sum().backward()", "--try")
    assert code == 0
    assert candidates(report) == {"leaky_relu_"}
    tried = report["trial"]
    assert report["together"] == SIZE == tried["peak_before"] - tried["peak_after"]
    assert (tried["substituted"], tried["equal_loss"], tried["changed_gradients"]) == (1, True, 0)


def test_relu_buys_nothing(measured):
    """Its input dies at once, so the peak is the same, in place or not."""
    code, report = measured(HEAD + "y = torch.relu(x @ w)\n(y @ w).sum().backward()", "--try")
    assert code == 0
    assert candidates(report) == {"relu_"}
    assert report["together"] == 0
    tried = report["trial"]
    assert tried["peak_before"] == tried["peak_after"]
    assert tried["changed_gradients"] == tried["rounded_gradients"] == 0


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "h = x @ w\ny = torch.relu(h)\n(y @ w + h @ w).sum().backward()", id="read by a later line"
        ),
        pytest.param("h = x @ w\ny = torch.relu(h)\n(y @ w).sum().backward()", id="still has a name"),
        pytest.param(
            "y = torch.relu((x @ w).exp())\n(y @ w).sum().backward()", id="saved by the line before"
        ),
        pytest.param("y = torch.relu(w)\n(x @ y).sum().backward()", id="a leaf"),
        pytest.param("y = torch.relu((x @ w)[:100])\n(y @ w).sum().backward()", id="part of its storage"),
        pytest.param(
            "y = torch.relu((x @ w).sum(0).expand(300, 200))\n(y @ w).sum().backward()", id="expanded"
        ),
        pytest.param("y = torch.sin(x @ w)\n(y @ w).sum().backward()", id="in place keeps a copy"),
        pytest.param("y = torch.relu(x)\n(y @ w).sum().backward()", id="data"),
    ],
)
def test_not_safe(measured, body):
    """What anybody still reads, or torch refuses to write, is no candidate."""
    _, report = measured(HEAD + body)
    assert candidates(report) & {"relu_", "sin_"} == set()


def test_either_operand_of_a_sum(measured):
    """The first operand is read later, the second is free."""
    body = "h = x @ w\ny = h + x @ w\n(y @ w).sum().add((h @ w).sum()).backward()"
    _, report = measured(HEAD + body, "--try")
    (one,) = (one for one in report["candidates"] if one["operation"] == "add_" and one["bytes"] == SIZE)
    assert one["operand"] == "other"
    assert report["trial"]["changed_gradients"] == 0
    assert report["trial"]["substituted"] >= 1


def test_dropout_is_one_operation(measured):
    """What torch does in place inside of dropout is not the program's; dropout itself could be."""
    _, report = measured(HEAD + "y = F.dropout(x @ w, 0.5)\n(y @ w).sum().backward()", "--try")
    assert report["in_place"] == []
    assert candidates(report) == {"dropout_"}
    assert report["trial"]["changed_gradients"] == report["trial"]["rounded_gradients"] == 0


def test_what_the_program_has(measured):
    """An in-place leaky_relu spares its input; an in-place sine keeps a copy and spares nothing."""
    _, report = measured(HEAD + "y = F.leaky_relu(x @ w, inplace=True)\n(y @ w).sum().backward()")
    (used,) = report["in_place"]
    assert (used["operation"], used["times"], used["peak_saved"]) == ("leaky_relu_", 1, SIZE)
    _, report = measured(HEAD + "y = (x @ w).sin_()\n(y @ w).sum().backward()")
    (used,) = report["in_place"]
    assert used["peak_saved"] == 0
    assert "copy" in used["reason"]


@pytest.mark.parametrize(("factor", "copies"), [("2", False), ("x.sum()", False), ("w.sum()", True)])
def test_a_product_keeps_a_copy_only_for_the_other_ones_gradient(measured, factor, copies):
    """What ``mul_`` overwrites is read by no gradient if the factor needs none."""
    _, report = measured(HEAD + f"y = (x @ w).mul_({factor})\n(y @ w).sum().backward()")
    (used,) = report["in_place"]
    assert ("copy" in used["reason"]) is copies


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.clamp_(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@pytest.mark.parametrize("clip", [Clip.apply, lambda x: x.clamp_(-1, 1)])
def test_a_function_of_the_programs_own_keeps_no_copy(clip):
    """Nothing is recorded in its forward."""
    x = torch.ones(100, 100, requires_grad=True)
    (used,) = unclobber.memory(lambda: clip(x * 2).sum().backward()).in_place
    assert ("keeps a copy" in used.reason) is (clip != Clip.apply)


def test_an_unsafe_change_is_caught():
    """The proof can fail: a candidate that backward still needs."""

    def step():
        torch.manual_seed(0)
        w = torch.randn(50, requires_grad=True)
        h = (w * 2).exp()
        torch.relu(h - 1).mul(h).sum().backward()

    def run():
        try:
            step()
        except RuntimeError as error:
            return str(error)
        except EnoughError:
            pass
        return None

    recorder = MemoryRecorder(keep_results=True)
    with recorder:
        assert run() is None
    (sub,) = (one for one in recorder.trace.operations if one.function == "sub")
    key = (*_places.key(sub.stack), sub.module, sub.function, 0)
    unsafe = InPlaceCandidate(None, "sub_", "self", (), 1, 1, 0, keys=(key,))
    trial = Attempts(run, lambda: None, recorder.trace, 1).in_place([unsafe])
    assert trial.substituted == 1
    assert trial.error is not None or trial.changed_gradients


def test_nan_that_becomes_zero_is_a_change(measured):
    """A program that gives NaN, and 0 once leaky_relu runs in place, has another loss and other gradients."""
    body = """
kept = [x @ w]
before = kept[0].data_ptr()
y = F.leaky_relu(kept.pop())
factor = 0.0 if y.data_ptr() == before else float("nan")
((y @ w).sum() * factor).backward()
"""
    _, report = measured(HEAD + body, "--try")
    tried = report["trial"]
    assert tried["substituted"] >= 1
    assert not tried["equal_loss"]
    assert tried["changed_gradients"] == tried["gradients"] == 1
