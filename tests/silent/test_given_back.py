"""Memory that is given back and filled again for backward, as sharded training does with its weights."""

from __future__ import annotations

import pytest
import torch

import unclobber


def train(x, refill):
    """The gradient of ``x * weight`` after the memory of the weight was freed and filled again unseen."""
    weight = torch.full((4,), 2.0)
    product = (x * weight).sum()
    storage = weight.untyped_storage()
    nbytes = storage.nbytes()
    storage.resize_(0)
    torch.ones(3).exp()  # something runs while there is nothing
    storage.resize_(nbytes)
    weight.data.fill_(-1.0)
    torch.ones(3).exp()
    weight.data.fill_(refill)
    product.backward()
    return x.grad.tolist()


def test_equal_values_are_no_finding():
    """Only what backward is handed counts; what lay there in between doesn't."""
    with unclobber.watch(fingerprint=1.0) as session:
        assert train(torch.ones(4, requires_grad=True), 2.0) == [2.0] * 4
    assert session.findings == ()


def test_other_values_are_told():
    """The weight was stepped before it was gathered again: torch goes on with a wrong gradient."""
    with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch(fingerprint=1.0) as session:
        assert train(torch.ones(4, requires_grad=True), 3.0) == [3.0] * 4
    (finding,) = session.findings
    assert (finding.code, finding.needed.site.source) == ("UC102", "product.backward()")
