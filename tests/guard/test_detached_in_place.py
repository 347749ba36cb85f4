"""``detach_`` on a saved tensor: torch refuses it at backward, though no value is lost."""

import pytest
import torch

import unclobber


def recurrence(detach):
    """The hidden state is saved by the next operation and then detached where it is."""
    w = torch.tensor([0.5, 2.0], requires_grad=True)
    h = w * 3
    y = h.sin() * w
    detach(h)
    y.sum().backward()
    return w.grad


@pytest.mark.parametrize("home", [torch.Tensor, torch], ids=["method", "function"])
def test_refused_as_by_torch(home):
    """The same sentence at the same backward, and the line that detached."""

    def detach(h):
        home.detach_(h)  # looked up here: a session wraps both

    with pytest.raises(RuntimeError) as plain:
        recurrence(detach)
    with pytest.raises(unclobber.InplaceError) as watched, unclobber.watch():
        recurrence(detach)
    finding = watched.value.finding
    assert str(watched.value).splitlines()[0] == str(plain.value) == finding.torch_message
    assert (finding.code, finding.harmless) == ("UC101", True)
    assert [write.operation for write in finding.writes] == ["detach_"]
    assert finding.writes[0].site.statement == "home.detach_(h)"
    assert finding.saved.site.source == "h.sin()"


def test_a_write_after_it_is_told_as_a_write():
    """It gives the tensor a history again, and torch's version check speaks."""

    def detach(h):
        h.detach_()
        h.mul_(torch.full((2,), 3.0, requires_grad=True))

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        recurrence(detach)
    with pytest.raises(unclobber.InplaceError, match="modified by an inplace operation") as watched:
        with unclobber.watch():
            recurrence(detach)
    assert watched.value.finding.writes[-1].operation == "mul_"
    assert not watched.value.finding.harmless


def test_right_under_guard():
    """The gradient of the program as written: the history that each operation saw."""
    with unclobber.guard():
        guarded = recurrence(lambda h: h.detach_())
    assert torch.equal(guarded, recurrence(lambda h: h.detach()))


def test_its_own_result_may_be_detached():
    """torch finds the history of what the asking node itself has made."""

    def program():
        w = torch.ones(2, requires_grad=True)
        y = w.exp()
        total = y.sum()
        y.detach_()
        total.backward()
        return w.grad

    with unclobber.watch(strict=True) as watched:
        found = program()
    assert torch.equal(found, program())
    assert watched.findings == ()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_a_custom_functions_save_may_be_detached():
    """``ctx.saved_tensors`` brings the node along, so torch needs no history."""

    def program():
        w = torch.ones(2, requires_grad=True)
        h = w * 3
        y = Square.apply(h)
        h.detach_()
        y.sum().backward()
        return w.grad

    with unclobber.watch(strict=True) as watched:
        found = program()
    assert torch.equal(found, program())
    assert watched.findings == ()


def test_everything_is_put_back():
    """Both entries are torch's own again."""
    unclobber.uninstall()
    before = torch.Tensor.detach_, torch.detach_
    with unclobber.watch():
        assert torch.Tensor.detach_ is not before[0]
    unclobber.uninstall()
    assert (torch.Tensor.detach_, torch.detach_) == before


def test_the_story():
    """Which line saved, which detached, and what to write."""

    def detach(h):
        h.detach_()

    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        recurrence(detach)
    story = " ".join(str(caught.value).split())
    assert "detached in place" in story
    assert "h = h.detach()" in story
    assert "torch refuses all the same" in story
