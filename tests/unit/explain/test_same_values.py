"""What is said of a saved tensor that was written, and holds what was saved."""

from __future__ import annotations

import pytest
import torch

import unclobber
from unclobber.report._labels import label


def same(y):
    y.mul_(1)


def restored(y):
    y.mul_(2)
    y.div_(2)


def beside(y):
    y._base[0] = 7.0


def in_shape(y):
    y.unsqueeze_(0)


def refused_after(write):
    """Torch's refusal of a backward after a write to what a product has saved."""
    w, base = torch.ones(3, requires_grad=True), torch.ones(4)
    y = base[1:]
    with unclobber.watch():
        z = (w * y).sum()
        write(y)
        with pytest.raises(unclobber.InplaceError) as refused:
            z.backward()
    return refused.value


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (same, "was written to, but not changed,"),
        (restored, "was written to, but holds the same values,"),
        (beside, "shares its storage with memory that was written"),
        (in_shape, "was changed in shape or strides, in no value,"),
    ],
)
def test_a_harmless_write(write, how):
    """Torch refuses all the same; the sentence says what became of the tensor."""
    finding = refused_after(write).finding
    assert finding.message == f"`y` {how} after mul saved it for the gradient of `w`"
    assert finding.harmless


def test_an_operation_that_resizes_what_it_fills_is_one_write():
    """`randn(out=)` resizes first, which moves no counter; torch sees the write."""
    w, noise = torch.ones(3, requires_grad=True), torch.zeros(3)
    with unclobber.watch():
        loss = (w * noise).sum()
        torch.randn(3, out=noise)
        with pytest.raises(unclobber.InplaceError) as refused:
            loss.backward()
    (write,) = refused.value.finding.writes
    assert (write.operation, write.bumps_version) == ("normal_", True)


def test_the_same_line_may_change_values_when_it_runs_again():
    """To normalize a weight changes nothing while its norm is one, and everything after a step."""

    def train(w):
        y = (w * torch.ones(2, requires_grad=True)).sum()
        with torch.no_grad():
            w.div_(w.norm())
        y.backward()

    for w, kept in ((torch.tensor([0.0, 1.0]), True), (torch.tensor([0.0, 3.0]), False)):
        with unclobber.watch(), pytest.raises(unclobber.InplaceError) as refused:
            train(torch.nn.Parameter(w))
        text = " ".join(str(refused.value).split())
        assert ("was written to, but not changed," in text) is kept
        said = label(refused.value.finding, "write", refused.value.finding.writes[0])
        assert said.startswith("written here, this time without a change" if kept else "overwritten here")
        assert ("this time, though the same line may change some when it runs again" in text) is kept


@pytest.mark.parametrize("write", [restored, beside])
def test_of_other_harmless_writes_nothing_is_said_of_another_time(write):
    """What was restored, or lies beside, is no chance of this run."""
    assert "this time" not in str(refused_after(write))
