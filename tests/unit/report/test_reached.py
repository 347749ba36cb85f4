"""A line says what a write reached: only what is in the saved tensor's memory is called that."""

from __future__ import annotations

import pytest
import torch

import unclobber
from unclobber.report import RenderOptions
from unclobber.report._text import to_text


def other_memory(h, v):
    v.data = torch.zeros(4)
    v.add_(1)


def other_memory_in_shape(h, v):
    v.data = torch.zeros(4)
    v.unsqueeze_(0)


def no_elements(h, v):
    v[:0].add_(1)


def other_elements(h, v):
    v[3] = 1.0


def in_shape(h, v):
    v.unsqueeze_(0)


@pytest.mark.parametrize(
    ("write", "label", "how"),
    [
        (other_memory, "written here, in other memory that has the same version counter", "version counter"),
        (other_memory_in_shape, "changed in shape or strides here, not in any element", "version counter"),
        (no_elements, "written here, in a tensor without elements", "storage"),
        (other_elements, "written here, to other elements of the same memory", "storage"),
        (in_shape, "changed in shape or strides here, not in any element", "storage"),
    ],
)
def test_a_write_that_missed(write, label, how):
    """The label, and by what torch knows of the write."""
    w = torch.ones(4, requires_grad=True)
    h = w * 1
    with unclobber.watch():
        loss = (h[:2] ** 2).sum()
        write(h, h.detach())
        with pytest.raises(unclobber.InplaceError) as caught:
            loss.backward()
    text = " ".join(to_text(caught.value.finding, RenderOptions(width=300)).split())
    assert label in text
    what = "a tensor that was changed in shape" if "shape" in label else "memory that was written"
    assert f"shares its {how} with {what}" in text
    assert f"torch counts writes per {how}" in text


def test_a_write_to_the_memory_that_it_had_before():
    """After ``.data =`` the tensor itself lies elsewhere."""
    v = torch.ones(4, requires_grad=True)
    w = torch.ones(4, requires_grad=True)
    with unclobber.watch():
        loss = (v * w).sum()
        with torch.no_grad():
            v.mul_(2)
        v.data = torch.ones(4)
        with pytest.raises(unclobber.InplaceError) as caught:
            loss.backward()
    text = " ".join(to_text(caught.value.finding, RenderOptions(width=300)).split())
    assert "written here, in the memory that the saved tensor had before" in text
