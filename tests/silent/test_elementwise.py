"""``apply_`` and ``map_`` write element by element, past every operation, and move no counter."""

from __future__ import annotations

import pytest
import torch

import unclobber

WRITES = {
    "apply_": lambda c: c.apply_(lambda value: value + 2),
    "map_": lambda c: c.map_(torch.ones(2), lambda a, b: a + b),
    "map2_": lambda c: c.map2_(torch.ones(2), torch.ones(2), lambda a, b, d: a + b + d),
}


def _gradient(write):
    w, c = torch.ones(2, requires_grad=True), torch.ones(2)
    y = (w * c).sum()
    write(c)
    y.backward()
    return w.grad


@pytest.mark.parametrize("name", WRITES)
def test_told(name):
    """An element-wise Python function's write is a finding at its line, with the reason torch misses it."""
    with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch() as session:
        _gradient(WRITES[name])
    (finding,) = session.findings
    assert finding.code == "UC102"
    assert finding.writes[0].operation == name
    assert finding.writes[0].site.source.startswith(f"c.{name}(")
    assert finding.writes[0].past_counter == "elementwise"


@pytest.mark.parametrize("name", WRITES)
def test_guarded(name):
    """Guard gives the gradient of the values before an element-wise Python function wrote."""
    assert not torch.equal(_gradient(WRITES[name]), torch.ones(2))
    with unclobber.guard():
        assert torch.equal(_gradient(WRITES[name]), torch.ones(2))


@pytest.mark.parametrize("name", WRITES)
def test_torchs_refusal_is_its_own(name):
    """Nothing is written to a tensor that requires grad."""
    y = torch.ones(2, requires_grad=True).exp()
    with pytest.raises(RuntimeError, match="requires grad"):
        WRITES[name](y)
    with unclobber.watch(), pytest.raises(RuntimeError, match="requires grad"):
        WRITES[name](y)


def test_taken_back():
    """The methods are wrapped while a context is open, and torch's own again after `uninstall`."""
    unclobber.uninstall()
    before = {name: getattr(torch.Tensor, name) for name in WRITES}
    with unclobber.watch():
        assert all(getattr(torch.Tensor, name) is not method for name, method in before.items())
    unclobber.uninstall()
    assert all(getattr(torch.Tensor, name) is method for name, method in before.items())
    assert not any(name in vars(torch.Tensor) for name in WRITES)
