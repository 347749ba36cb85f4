"""The last write to the memory of a view, where it is certain."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import unclobber
from unclobber.observe import _sites, _view_writes


@pytest.fixture
def views():
    """A tensor with two views, in a session that something saved is alive in."""
    with unclobber.watch():
        h = torch.ones(2, 2, requires_grad=True).exp()
        yield (h, *h.unbind())


def _words(view):
    wrote = _view_writes.last(view)
    return None if wrote is None else (wrote.operation, _sites.resolve(wrote.stack).statement)


def test_the_last_one(views):
    h, a, _ = views
    h.mul_(2)
    h += 1
    assert _words(a) == ("add_", "h += 1")


def test_through_another_view(views):
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
    h, a, _ = views
    other = torch.ones(2, requires_grad=True).exp()
    parts = other.unbind()
    other.mul_(2)
    assert _words(a) is None
    assert h is not other
    assert _words(parts[0]) == ("mul_", "other.mul_(2)")


def test_nothing_is_left():
    """No tensor is kept alive, and nothing is known once the session has ended."""
    with unclobber.watch():
        h = torch.ones(2, 2, requires_grad=True).exp()
        views = h.unbind()
        h.mul_(2)
        gone = weakref.ref(h)
        assert _view_writes.last(views[0]) is not None
        del h, views
        gc.collect()
        assert gone() is None
    assert not _view_writes._recent
