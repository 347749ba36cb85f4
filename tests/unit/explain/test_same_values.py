"""What is said of a saved tensor that was written, and holds what was saved."""

from __future__ import annotations

import pytest
import torch

import unclobber


def same(y):
    y.mul_(1)


def restored(y):
    y.mul_(2)
    y.div_(2)


def beside(y):
    y._base[0] = 7.0


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (same, "was written to without a change to any value"),
        (restored, "was written to and holds the saved values again"),
        (beside, "shares its storage with memory that was written"),
    ],
)
def test_a_harmless_write(write, how):
    """Torch refuses all the same; the sentence says what became of the tensor."""
    w, base = torch.ones(3, requires_grad=True), torch.ones(4)
    y = base[1:]
    with unclobber.watch():
        z = (w * y).sum()
        write(y)
        with pytest.raises(unclobber.InplaceError) as refused:
            z.backward()
    finding = refused.value.finding
    assert finding.message == f"`y` {how} after mul saved it for the gradient of `w`"
    assert finding.harmless
