"""The last write to the memory of a view, where it is certain."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import unclobber
from unclobber.session import session
from unclobber.source import sites


@pytest.fixture
def views():
    """A tensor with two views, in a session that something saved is alive in."""
    with unclobber.watch():
        h = torch.ones(2, 2, requires_grad=True).exp()
        yield (h, *h.unbind())


def _words(view):
    wrote = session.installation.view_writes.last(view)
    return None if wrote is None else (wrote.operation, sites.resolve(wrote.stack).statement)


def test_the_last_one(views):
    """The last of several writes to a base is noted for its views."""
    h, a, _ = views
    h.mul_(2)
    h += 1
    assert _words(a) == ("add_", "h += 1")


def test_through_another_view(views):
    """A write through one view is noted for the others."""
    _, a, b = views
    with torch.no_grad():
        a.zero_()
    assert _words(b) == ("zero_", "a.zero_()")


def test_a_later_one_that_nobody_saw(views):
    h, a, _ = views
    h.mul_(2)
    torch.autograd.graph.increment_version(h)
    assert _words(a) is None


def test_other_memory(views):
    """A write to other memory is not noted."""
    h, a, _ = views
    other = torch.ones(2, requires_grad=True).exp()
    parts = other.unbind()
    other.mul_(2)
    assert _words(a) is None
    assert h is not other
    assert _words(parts[0]) == ("mul_", "other.mul_(2)")


@pytest.fixture
def chunks():
    """A parameter and its chunks, in a session in which nothing was ever saved."""
    with unclobber.watch():
        w = torch.nn.Parameter(torch.ones(4, 2))
        w.grad = torch.ones_like(w)
        yield (w, *w.chunk(2))


def test_nothing_was_saved_yet(chunks):
    w, a, _ = chunks
    with torch.no_grad():
        w.mul_(2)
        w.add_(1)
    assert _words(a) == ("add_", "w.add_(1)")


@pytest.mark.parametrize(
    "options", [{"foreach": False}, {"foreach": True}, {"foreach": False, "momentum": 0.9}]
)
def test_a_step_that_nobody_looked_at(chunks, options):
    """While nothing saved is alive, an optimizer's writes go unseen: the step is known all the same."""
    w, a, _ = chunks
    opt = torch.optim.SGD([torch.nn.Parameter(torch.ones(1)), w], lr=0.1, **options)
    opt.step()
    assert _words(a) == ("SGD.step", "opt.step()")
    with torch.no_grad():
        w.mul_(2)
    assert _words(a) == ("mul_", "w.mul_(2)")
    opt.step()
    assert _words(a) == ("SGD.step", "opt.step()")


class _Around(torch.optim.Optimizer):
    """Has another optimizer make the step, as SAM and Lookahead do."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure=None):
        if closure is not None:
            closure()
        self.inner.step()


@pytest.mark.parametrize(
    ("closure", "said"),
    [(None, ("_Around.step", "opt.step(closure)")), (lambda: None, ("SGD.step", "self.inner.step()"))],
)
def test_a_step_within_a_step(chunks, closure, said):
    """The outer one's pause lasts to its end, and an inner one's does: what comes after is seen again."""
    w, a, _ = chunks
    opt = _Around(torch.optim.SGD([w], lr=0.1))
    for _ in range(2):
        opt.step(closure)
        assert _words(a) == said
        with torch.no_grad():
            w.mul_(2)
        assert _words(a) == ("mul_", "w.mul_(2)")


def test_a_step_while_something_is_saved(chunks):
    w, a, _ = chunks
    opt = torch.optim.SGD([w], lr=0.1)
    loss = (w * w).sum()
    opt.step()
    assert _words(a)[1] == "opt.step()"
    assert loss is not None


def test_a_step_that_left_the_parameter_alone(chunks):
    """It had no gradient: what somebody wrote unseen before is not the step's."""
    w, a, _ = chunks
    opt = torch.optim.SGD([w], lr=0.1)
    w.grad = None
    torch.autograd.graph.increment_version(w)
    opt.step()
    assert _words(a) is None


def test_a_write_after_a_step_that_nobody_saw(chunks):
    w, a, _ = chunks
    opt = torch.optim.SGD([w], lr=0.1)
    opt.step()
    torch.autograd.graph.increment_version(w)
    assert _words(a) is None


def test_a_parameter_that_is_a_view(chunks):
    flat = torch.ones(8)
    w = flat[2:6].requires_grad_()
    w.grad = torch.ones_like(w)
    opt = torch.optim.SGD([w], lr=0.1)
    a, _ = w.chunk(2)
    opt.step()
    assert _words(a) == ("SGD.step", "opt.step()")


def test_nothing_is_left():
    """No tensor is kept alive, and nothing is known once the session has ended."""
    with unclobber.watch():
        h = torch.ones(2, 2, requires_grad=True).exp()
        views = h.unbind()
        h.mul_(2)
        gone = weakref.ref(h)
        assert session.installation.view_writes.last(views[0]) is not None
        del h, views
        gc.collect()
        assert gone() is None
    assert not session.installation.view_writes._recent
