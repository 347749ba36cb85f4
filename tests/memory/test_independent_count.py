"""The numbers against an independent count: torch's own memory tracker, and fake against real tensors."""

from __future__ import annotations

import pytest
import torch
from models import blocks, convolutions, step, train

from unclobber.footprint import memory as record

MemTracker = pytest.importorskip("torch.distributed._tools.mem_tracker").MemTracker

MODELS = pytest.mark.parametrize("make", [blocks, convolutions], ids=lambda make: make.__name__)


def tracked(make) -> dict[str, int]:
    """Bytes by sort at the peak, as torch's tracker counts them."""
    model, data = make()
    tracker = MemTracker()
    tracker.track_external(model)
    with pytest.MonkeyPatch.context() as kept:
        # it gives the method back to a class that only inherits it
        kept.setattr(torch.UntypedStorage, "resize_", torch.UntypedStorage.resize_)
        with tracker:
            step(model, data)
    (snapshot,) = tracker.get_tracker_snapshot("peak").values()
    return {str(getattr(sort, "value", sort)): count for sort, count in snapshot.items()}


@MODELS
def test_activations_at_the_peak(make):
    """Live activations agree within 2 %."""
    counted = tracked(make)["Activation"]
    report = record(train, make)
    assert report.peak_activations == pytest.approx(counted, rel=0.02)


@MODELS
def test_parameters(make):
    """Parameters, which live anyway, agree; ours hold the input data and the buffers too."""
    counts = tracked(make)
    _, data = make()
    expected = counts["Parameter"] + counts["Buffer"] + data.nbytes
    assert record(train, make).peak.moment.lasting == pytest.approx(expected, rel=0.02)


@MODELS
def test_fake_equals_real(make):
    """Planning without memory gives the same figures, line by line."""
    real, fake = record(train, make), record(train, make, fake=True)
    assert fake.bytes_by_line == real.bytes_by_line
    assert fake.peak_activations == real.peak_activations
    assert fake.peak.moment.step == real.peak.moment.step


def test_the_comparison_can_fail():
    """Another batch is another count."""
    counted = tracked(blocks)["Activation"]

    def smaller():
        model, data = blocks()
        return model, data[:3]

    assert record(train, smaller).peak_activations != pytest.approx(counted, rel=0.02)


def test_torch_is_left_as_it_was():
    """torch's tracker exchanges a method of the class of storages, which other tests ask for."""
    before = dict(vars(torch.UntypedStorage))
    tracked(blocks)
    assert dict(vars(torch.UntypedStorage)) == before
