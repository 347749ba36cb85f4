"""Several modules in a row, computed again in backward as one piece."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import unclobber
from unclobber.footprint import _recorder as recorders
from unclobber.footprint.savings import _pieces

WIDTH = 32


class Looped(nn.Module):
    """A loop over modules, with a mask for each, a tuple from each, or more between them."""

    def __init__(self, way: str = "plain", count: int = 6) -> None:
        super().__init__()
        self.way = way
        self.rows = nn.ModuleList(Row(way) for _ in range(count))

    def forward(self, x):
        mask = torch.rand(WIDTH) if self.way == "mask" else None
        collected = []
        for row in self.rows:
            x = row(x) if mask is None else row(x, mask=mask)
            if self.way == "tuple":
                x = x[0]
            if self.way == "between":
                x = x + 1
            if self.way == "collected":
                collected.append(x)
        return x + sum(one.sum() for one in collected)


class Row(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.linear = way, nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask=None):
        x = self.linear(x).tanh()
        if mask is not None:
            x = x * mask
        return (x, None) if self.way == "tuple" else x


def step(model, x):
    model(x).square().mean().backward()


def rows(model, x):
    recorder = recorders.MemoryRecorder(stop=False)
    with recorder:
        step(model, x)
    return {len(row) for _, row in _pieces._rows(recorder.trace)}


@pytest.mark.parametrize(
    ("way", "expected"),
    [("plain", {6}), ("mask", {6}), ("tuple", {6}), ("between", set()), ("collected", set())],
)
def test_what_is_a_row(way, expected):
    """Each module reads what the one before returned, nobody else does, and nothing runs between."""
    assert rows(Looped(way), torch.randn(8, WIDTH)) == expected


def test_layers_side_by_side_are_no_row():
    """Queries, keys and values are computed of one tensor."""

    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.all = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x):
            return torch.cat([one(x) for one in self.all])

    assert rows(Beside(), torch.randn(8, WIDTH)) == set()


@pytest.mark.parametrize("way", ["mask", "tuple", "sequential"])
def test_pieces_are_run(way):
    """Inside of a piece not even the results of its modules are kept: predicted as measured, to the bit."""
    torch.manual_seed(0)
    model = Looped(way) if way != "sequential" else nn.Sequential(nn.Sequential(*Looped().rows))
    report = unclobber.memory(step, model, torch.randn(100, WIDTH), try_changes=True)
    pieces = [one for one in report.changes if one.sort == "checkpoint" and "piece" in one.title]
    assert {"in one piece" in one.title for one in pieces} == {True, False}
    for one in pieces:
        assert one.tried.proved
        assert one.tried.largest_difference == 0
        assert one.tried.saved == pytest.approx(one.predicted, rel=0.1)
        assert 0 < one.recomputed < 1
        assert ("checkpoint_sequential" in one.write) == (
            way == "sequential" and "one piece" not in one.title
        )
    assert len(report.curve) > 1
    assert not [one for one in model.modules() if "forward" in vars(one)]


def test_fake_tensors_plan_the_same():
    """Where to cut a row is asked of the timeline, which has no values."""

    def whole():
        torch.manual_seed(0)
        step(Looped(), torch.randn(100, WIDTH))

    real, fake = (
        {
            one.title: one.predicted
            for one in unclobber.memory(whole, fake=which).changes
            if "piece" in one.title
        }
        for which in (False, True)
    )
    assert real == fake != {}
