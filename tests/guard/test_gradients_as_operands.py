"""A program computes with a ``.grad``; later backwards add to it in place, in C++."""

from __future__ import annotations

import linecache

import pytest
import torch

import unclobber
from unclobber.observe.hooks import backward_calls


def can_pause_observation():
    """Whether a backward that began now would run unseen."""
    return backward_calls.may_pause() is True


def _hypergradient(read, between=None, *, copy=False):
    """The gradient of ``meta`` through a first gradient, with a second backward in between."""
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    meta = torch.tensor(0.5, requires_grad=True)
    net(torch.randn(4, 3)).square().sum().backward()
    penalty = 0
    for _ in range(2):
        gradient = read(net.bias)
        penalty = penalty + (meta * (gradient.clone() if copy else gradient)).sum()
        if between is not None:
            between(net)
        net(torch.randn(4, 3)).square().sum().backward()  # adds
    penalty.backward()
    return meta.grad


READS = {
    "itself": lambda p: p.grad,
    "detached": lambda p: p.grad.detach(),
    "a view": lambda p: p.grad[1:],
    "data": lambda p: p.grad.data,
}


@pytest.mark.parametrize("read", [name for name in READS if name != "data"])
def test_the_line_that_ran_the_backward(read):
    with pytest.raises(unclobber.InplaceError) as caught, unclobber.watch():
        _hypergradient(READS[read])
    finding = caught.value.finding
    lines = {linecache.getline(write.site.path, write.site.line).strip() for write in finding.writes}
    assert lines == {"net(torch.randn(4, 3)).square().sum().backward()  # adds"}
    assert any("every backward adds to it in place" in note for note in finding.notes)
    assert not any("could see" in note for note in finding.notes)


def test_a_line_that_torch_does_not_see():
    """``.data`` of a gradient has a counter of its own: torch would hand out the sum of two gradients."""
    with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch() as session:
        _hypergradient(READS["data"])
    codes = {finding.code for finding in session.findings}
    lines = {
        linecache.getline(write.site.path, write.site.line).strip()
        for finding in session.findings
        for write in finding.writes
    }
    assert codes == {"UC102"}
    assert lines == {"net(torch.randn(4, 3)).square().sum().backward()  # adds"}


@pytest.mark.parametrize("between", [None, torch.nn.Module.zero_grad, "zero"])
@pytest.mark.parametrize("read", READS)
def test_guarded(read, between):
    """The value that each product saw, also where the gradient is set to zero in place meanwhile."""
    if between == "zero":
        between = lambda net: net.zero_grad(set_to_none=False)  # noqa: E731
    expected = _hypergradient(READS[read], between, copy=True)
    with unclobber.guard():
        found = _hypergradient(READS[read], between)
    assert torch.equal(found, expected)


def test_other_programs_rest():
    """What is saved of a usual step, inputs and running statistics among it, is nobody's gradient."""
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(inplace=True))
    images = torch.randn(4, 2, 5, 5)
    with unclobber.watch():
        for i in range(2):
            batch = images[2 * i : 2 * i + 2]
            scale = torch.full((2, 1, 3, 3), 0.5).detach()
            loss = (net(batch * batch) * scale).square().mean()
            assert can_pause_observation()
            loss.backward()
        loss = (net(images) * net[0].bias.grad[:, None, None]).sum()
        assert not can_pause_observation()
