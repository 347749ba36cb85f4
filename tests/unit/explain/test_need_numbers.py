"""Numbers of backward calls, as a reader of the program counts them."""

import torch
from torch.utils.checkpoint import checkpoint

import unclobber


def test_a_reentrant_checkpoints_own_backward_is_not_counted():
    """The program wrote two, and torch ran four: its second one needs what its first one freed."""

    def two_steps():
        w, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        scale = w.exp()
        for _ in range(2):
            checkpoint(lambda x: x * scale, x, use_reentrant=True).sum().backward()

    (finding,) = unclobber.audit(two_steps).findings
    assert (finding.freed.nth, finding.needed.nth) == (1, 2)
