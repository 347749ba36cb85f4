"""Writes through a tensor with a version counter of its own, among writes that torch counts."""

from __future__ import annotations

import pytest
import torch

import unclobber


def _versions(write):
    """What a finding says of the writes: the version counter before and after each, None for unseen ones."""
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3, requires_grad=True)
    with unclobber.watch():
        y = (x * w).sum()
        with torch.no_grad():
            write(w)
        now = w._version
        with pytest.raises(unclobber.InplaceError) as info:
            y.backward()
    found = [(one.version_before, one.version_after) for one in info.value.finding.writes]
    assert max(after for _, after in found if after is not None) == now
    return found


def test_through_data():
    """Writes through `.data` have no versions; one between them has."""

    def write(w):
        w.data.mul_(2)
        w.add_(1)
        w.data.mul_(3)

    assert _versions(write) == [(None, None), (0, 1), (None, None)]


def test_through_data_in_a_loop():
    """The writes of one line have no versions together, either."""

    def write(w):
        for _ in range(2):
            w.data.mul_(2)
        w.add_(1)

    assert _versions(write) == [(None, None), (0, 1)]


def test_assigned_through_data():
    """An augmented assignment to `.data` has no versions and leaves those of later writes right."""

    def write(w):
        w.add_(1)
        w.data -= 0.5
        w.add_(1)

    assert _versions(write) == [(0, 1), (None, None), (1, 2)]


def test_all_of_them_counted():
    def write(w):
        w.add_(1)
        w[0] = 5.0
        w.detach().mul_(2)

    assert _versions(write) == [(0, 1), (1, 2), (2, 3)]
