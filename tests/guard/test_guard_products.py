"""A product's result, which its derivative reads, has no dimension where the product has many factors."""

from __future__ import annotations

import pytest
import torch

import unclobber


@pytest.mark.parametrize("product", [torch.prod, lambda x: x.prod(0)], ids=["all", "one dimension"])
@pytest.mark.parametrize("unseen", [True, False], ids=["data", "detach"])
def test_the_result_of_a_product_that_is_overwritten(product, unseen):
    """Shrunk from a random program of the sweep: only a scalar's product needs no value."""
    x = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(product(x.exp()), x)
    with unclobber.guard() as seen:
        y = product(x.exp())
        z = y * 1.0
        (y.data if unseen else y.detach()).zero_()
        (gradient,) = torch.autograd.grad(z, x)
    torch.testing.assert_close(gradient, expected, rtol=1e-14, atol=0)
    assert [each.code for each in seen.findings] == ["UC102" if unseen else "UC101"]


def test_the_product_of_a_scalar_reads_no_value():
    x = torch.tensor(2.0, requires_grad=True)
    with unclobber.watch() as seen:
        y = x * 1.5
        z = y.prod() * 1.0
        y.data.zero_()
        assert torch.autograd.grad(z, x)[0] == 1.5
    assert not seen.findings
