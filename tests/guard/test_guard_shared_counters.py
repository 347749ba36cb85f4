"""``v.data = new`` leaves ``v`` the counter of its old memory, which then stands for two memories."""

from __future__ import annotations

import pytest
import torch
from guarded_twins import ramp

import unclobber


def exchanged_view_is_saved(w):
    """The view that was given other memory is saved, its old memory is written."""
    v = w.view(-1)
    v.data = torch.full_like(v, 0.5)
    other = w.narrow(0, 0, 1)
    loss = v.sin().sum()
    with torch.no_grad():
        other.mul_(2)
    return loss


def old_memory_is_saved(w):
    """The tensor that keeps the old memory is saved, the new memory is written."""
    y = w * 1
    v = y.view(-1)
    v.data = torch.full_like(v, 0.5)
    loss = y.sin().sum()
    with torch.no_grad():
        v.mul_(2)
    return loss


def new_memory_is_written_twice_by_one_call(w):
    """How often such an operation moves the counter is only seen afterwards."""
    y = w * 1
    v = y.view(-1)
    v.data = torch.full_like(v, 0.5)
    loss = y.sin().sum()
    torch._foreach_mul_([v, v], 2)
    return loss


@pytest.mark.parametrize(
    "program", [exchanged_view_is_saved, old_memory_is_saved, new_memory_is_written_twice_by_one_call]
)
def test_a_counter_moved_by_other_memory(program):
    """torch refuses; nothing was overwritten, so guard goes on, keeps nothing, and the story has the line."""
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda kept: kept):
        w = ramp(4)
        program(w).backward()
        expected = w.grad
    w = ramp(4)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        program(w).backward()
    w = ramp(4)
    with unclobber.guard() as g:
        program(w).backward()
    assert torch.equal(w.grad, expected)
    assert g.peak_bytes == 0
    with pytest.raises(unclobber.InplaceError) as refused, unclobber.watch():
        program(ramp(4)).backward()
    (write,) = refused.value.finding.writes
    assert write.site.source.endswith(("other.mul_(2)", "v.mul_(2)", "_mul_([v, v], 2)"))
    assert not write.overlaps_needed


def test_both_memories_written():
    """The memory that is needed was written, too: its old value is handed back."""
    w = ramp(4)
    with unclobber.guard() as g:
        v = (y := w * 1).view(-1)
        v.data = torch.full_like(v, 0.5)
        loss = v.sin().sum()
        with torch.no_grad():
            y.mul_(2)
            v.mul_(2)
        loss.backward()
    assert torch.equal(w.grad, torch.full_like(w, 0.5).cos())
    assert g.peak_bytes == v.nbytes
