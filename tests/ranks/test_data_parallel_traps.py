"""What DistributedDataParallel writes by itself is told by its name; a world of one process is enough."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import unclobber


@pytest.fixture(autouse=True)
def group(tmp_path):
    """A process group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def penalty(model, parameter, keep):
    """A term of a gradient that the next backward writes to; gives the findings."""

    def train():
        for _ in range(2):  # after the first one it makes its buckets anew
            model(torch.ones(2, 3)).sum().backward()
        w = torch.ones(1, 3, requires_grad=True)
        saved = (w * parameter.grad).sum()
        if not keep:
            parameter.grad = None
        model(torch.full((2, 3), 3.0)).sum().backward()
        saved.backward()

    return unclobber.audit(train).findings


def test_a_gradient_in_a_bucket():
    """It is written by every backward, also after ``zero_grad()`` let go of it."""
    layer = torch.nn.Linear(3, 1)
    model = DistributedDataParallel(layer, gradient_as_bucket_view=True)
    (finding,) = penalty(model, layer.weight, keep=False)
    assert finding.code == "UC101"
    (note,) = [note for note in finding.notes if "DistributedDataParallel" in note]
    assert "this memory is the gradient of `layer.weight`, a view of a bucket of" in note
    assert finding.fixes[0].title.endswith("`layer.weight.grad.clone()` where it is read")


def test_its_harmless_twin():
    """Without the option a gradient that was let go of is nobody's to write."""
    layer = torch.nn.Linear(3, 1)
    assert penalty(DistributedDataParallel(layer), layer.weight, keep=False) == ()


def test_a_gradient_that_is_added_to():
    """Without buckets backward itself adds to the gradient in place."""
    layer = torch.nn.Linear(3, 1)
    (finding,) = penalty(layer, layer.weight, keep=True)
    (note,) = [note for note in finding.notes if "every backward" in note]
    assert note.endswith(": every backward adds to it in place")


def test_detaching_a_gradient_in_a_bucket():
    """torch names the mechanism itself; it is no finding of ours, and its error is left as it is."""
    layer = torch.nn.Linear(3, 1)
    model = DistributedDataParallel(layer, gradient_as_bucket_view=True)
    with unclobber.watch() as session:
        model(torch.ones(2, 3)).sum().backward()
        with pytest.raises(RuntimeError, match="gradient_as_bucket_view is set as True"):
            layer.weight.grad.detach_()
        model.zero_grad(set_to_none=False)  # tells views and others apart
        model(torch.ones(2, 3)).sum().backward()
    assert session.findings == ()
