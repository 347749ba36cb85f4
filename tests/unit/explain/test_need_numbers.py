"""Numbers of backward calls, as a reader of the program counts them."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import unclobber


def test_a_reentrant_checkpoints_own_backward_is_not_counted():
    """The program wrote two, and torch ran four: the second one of the program's needs what the first freed."""
    w, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    with pytest.raises(unclobber.InplaceError) as raised, unclobber.watch():
        scale = w.exp()
        for _ in range(2):
            checkpoint(lambda x: x * scale, x, use_reentrant=True).sum().backward()
    assert (raised.value.finding.freed.nth, raised.value.finding.needed.nth) == (1, 2)
