"""Hooks of the program's for one saved tensor: guard hands their pack hook, and backward, what was saved."""

from __future__ import annotations

import pytest
import torch

import unclobber
from unclobber.torch_internals import compat

pytestmark = pytest.mark.skipif(
    not compat.behaviour.shows_packed, reason="torch refuses a second pair of hooks"
)


def _gradient(when, context, pack=lambda tensor: tensor):
    x = torch.ones(2, requires_grad=True)
    with context as session:
        y = x.exp()
        raw = y.grad_fn._raw_saved_result
        if when == "before":
            y.add_(1)
        raw.register_hooks(pack, lambda kept: kept)
        if when == "after":
            y.add_(1)
        y.sum().backward()
    return x.grad, [finding.code for finding in session.findings]


@pytest.mark.parametrize("when", ["before", "after"])
def test_guard_restores_what_the_hooks_keep(when):
    gradient, _ = _gradient(when, unclobber.guard())
    assert torch.equal(gradient, torch.ones(2).exp())


@pytest.mark.parametrize("when", ["before", "after"])
def test_watch_tells_of_the_write_that_torch_does_not_refuse(when):
    with pytest.warns(unclobber.SilentWriteWarning):
        gradient, found = _gradient(when, unclobber.watch())
    assert torch.equal(gradient, torch.ones(2).exp() + 1)
    assert found == ["UC102"]


def test_a_copy_is_the_programs_own():
    gradient, found = _gradient("after", unclobber.watch(), torch.clone)
    assert torch.equal(gradient, torch.ones(2).exp())
    assert found == []
