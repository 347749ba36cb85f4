"""Asking a tensor for its history changes nothing and never fails."""

import pytest
import torch

from torch_words import name_in_sentence
from unclobber.torch_internals import compat


@pytest.fixture
def h():
    return torch.ones(4, requires_grad=True) * 2


def written(h):
    with torch.no_grad():
        h.add_(1)


def test_a_view_that_was_not_written(h):
    part, row = h.chunk(2)[1], h[1:]
    assert compat.graph.grad_fn(part).name() == "SplitBackward0"
    assert compat.graph.grad_fn(row) is row.grad_fn
    assert compat.graph.grad_fn(h) is h.grad_fn


def test_a_view_keeps_its_node_until_torch_asks(h):
    """Only torch itself makes the node anew, as it does without us."""
    row = h[1:]
    before = row.grad_fn
    counter = torch.autograd._unsafe_preserve_version_counter(h)
    written(h)
    assert compat.graph.grad_fn(row) is None
    assert compat.graph.has_history(row)
    assert compat.graph.why_unusable(row) is None
    counter.__exit__()  # as if nothing had been written
    assert row.grad_fn is before


def test_one_of_several_views_refuses_and_we_say_why(h):
    part = h.chunk(2)[1]
    written(h)
    assert compat.graph.grad_fn(part) is None
    assert compat.graph.renewed_grad_fn(part) is None
    assert compat.graph.has_history(part)
    split = name_in_sentence("SplitBackward0")
    assert compat.graph.why_unusable(part) == f"Output 1 of {split} {compat.Sentence.STALE_VIEW}"
    with pytest.raises(RuntimeError, match=f"Output 1 of {split} is a view"):
        _ = part * 2


def test_a_later_write_is_allowed_as_before(h):
    row = h[1:]
    compat.graph.grad_fn(row)
    row.mul_(2)
    written(h)
    compat.graph.grad_fn(row)
    row.mul_(2)
    assert row.grad_fn.name() == "AsStridedBackward0"


def test_what_has_none():
    """Leaves, constants and views that autograd has not recorded have no history."""
    leaf = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        unrecorded = leaf[:1]
        constant = torch.ones(2)[0]
    for tensor in (leaf, unrecorded, constant, leaf.detach()):
        assert compat.graph.grad_fn(tensor) is None
        assert not compat.graph.has_history(tensor)
        assert tensor.is_leaf
