"""What is harmless to one saved tensor is not to the gradient, if the same backward needs a changed one."""

import pytest
import torch

import unclobber

ANOTHER = "the same backward needs what line "


def note_of(finding):
    """The note about the other tensor; empty without one."""
    return next((note for note in finding.notes if ANOTHER in note), "")


def refused(*, change=False, norm=False):
    """``s`` gets the values that it had, and backward asks for it first."""

    def program():
        w, s, t = torch.rand(4, 2, requires_grad=True), torch.rand(2), torch.rand(2)
        batch_norm = torch.nn.BatchNorm1d(2) if norm else torch.nn.Identity()
        y = batch_norm(batch_norm(w * t)) * s
        s.mul_(1)
        if change:
            t.mul_(2)
        y.sum().backward()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    return caught.value.finding


def test_alone():
    """Nothing else was written to."""
    finding = refused()
    assert finding.harmless
    assert not note_of(finding)


def test_with_a_changed_one():
    """The note says so, and nothing claims that the gradient would be right."""
    finding = refused(change=True)
    assert not finding.harmless
    assert f"{ANOTHER}{finding.saved.site.line} saved, too" in note_of(finding)  # `w * t` is beside it
    assert dict(finding.labels)["write"] == "written here (mul_)"  # this tensor wasn't overwritten


def test_what_backward_never_reads_does_not_count():
    """Batch norm keeps its running statistics and updates them in each forward."""
    assert refused(norm=True).harmless
    assert not refused(norm=True, change=True).harmless


def test_an_unread_one_beside_a_changed_one():
    """``gather`` keeps what softmax has computed for its shape; softmax itself reads it."""

    def program():
        x = torch.rand(3, 4, requires_grad=True)
        weights = x.softmax(-1)
        kept = weights.gather(1, torch.tensor([[1], [2], [3]]))
        weights[:, 0] = 0
        kept.sum().backward()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    finding = caught.value.finding
    assert finding.needed.node == "GatherBackward0"
    assert not finding.harmless
    assert f"{ANOTHER}{finding.saved.site.line - 1} saved, too" in note_of(finding)


def test_another_turn_of_the_same_lines():
    """A mask of ones in the last turn changes nothing there; what the turn before saved has changed."""

    def program(masks):
        w = torch.rand(3, requires_grad=True)
        h, rows = torch.rand(3), []
        for mask in masks:
            h = h * w
            rows.append(h * w)
            h *= mask
        sum(rows).sum().backward()

    ones, zeros = torch.ones(3), torch.zeros(3)
    for masks, kept in (([zeros, ones], False), ([ones, ones], True)):
        with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
            program(masks)
        finding = caught.value.finding
        assert finding.harmless is kept
        assert ("was written to, but not changed" in finding.message) is kept
        assert bool(note_of(finding)) is not kept
        assert "was overwritten" not in finding.message  # what this turn saved was not
        assert "overwritten here" not in str(caught.value)


class Spike(torch.autograd.Function):
    """A step function, with the derivative of a smooth one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 1).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + x.abs()) ** 2


def test_another_call_of_the_same_function():
    """Two layers run one line; only what the first one saved has changed, and torch's `apply` isn't named."""

    def layer(x):
        y = x * 1
        spikes = Spike.apply(y)
        y[spikes.bool()] = 0
        return spikes

    def program():
        w = torch.full((3,), 2.0, requires_grad=True)
        spikes = layer(w)
        layer(spikes * 0.5).sum().backward()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        program()
    finding = caught.value.finding
    assert " was written to after `Spike.apply(y)` saved it" in finding.message
    assert f"{ANOTHER}{finding.saved.site.line} saved in other calls" in note_of(finding)
    assert "overwritten here" not in str(caught.value)
    assert "function.py" not in str(caught.value)
