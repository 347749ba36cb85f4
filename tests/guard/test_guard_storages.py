"""Memory that is given back and taken again, as sharded training does with its weights."""

import pytest
import torch
from guarded_twins import ramp

import unclobber


def saved_product(w):
    a = torch.full((4,), 3.0, dtype=w.dtype)
    return a, (w * a).sum()


def free_and_refill(a, value, *, preserve=False):
    nbytes = a.untyped_storage().nbytes()
    a.untyped_storage().resize_(0)
    a.untyped_storage().resize_(nbytes)
    if preserve:
        with torch.autograd._unsafe_preserve_version_counter(a):
            a.fill_(value)
    else:
        a.fill_(value)


def test_refilled_with_other_values_is_refused():
    """The old values are gone and were not kept: refused as torch does, not rebuilt from rubbish."""
    w = ramp(4)
    with unclobber.guard() as g:
        a, product = saved_product(w)
        free_and_refill(a, 5.0)
        with pytest.raises(unclobber.InplaceError, match="modified by an inplace operation"):
            product.backward()
    assert g.peak_bytes == 0


def test_refilled_with_the_same_values_and_version():
    """Freed, gathered again and declared unchanged: torch goes on, and so do we, without keeping a copy."""
    w = ramp(4)
    with unclobber.guard() as g:
        a, product = saved_product(w)
        free_and_refill(a, 3.0, preserve=True)
        product.backward()
    assert w.grad.tolist() == [3.0] * 4
    assert (g.peak_bytes, g.conflicts) == (0, ())


def test_kept_before_the_memory_was_given_back():
    """A value that a write had us keep doesn't need the memory."""
    w = ramp(4)
    with unclobber.guard():
        a, product = saved_product(w)
        a.zero_()
        a.untyped_storage().resize_(0)
        product.backward()
    assert w.grad.tolist() == [3.0] * 4


def test_partly_kept_is_refused():
    """One element was kept, the others were only in the memory."""
    w = ramp(4)
    with unclobber.guard():
        a, product = saved_product(w)
        a[0] = 0
        free_and_refill(a, 5.0)
        with pytest.raises(unclobber.InplaceError, match="modified by an inplace operation"):
            product.backward()


def test_saves_after_the_refill_are_guarded():
    """The storage goes on as any other."""
    w = ramp(4)
    with unclobber.guard():
        a, first = saved_product(w)
        del first
        free_and_refill(a, 5.0)
        second = (w * a).sum()
        a.zero_()
        second.backward()
    assert w.grad.tolist() == [5.0] * 4


def test_growing_keeps_values():
    """A storage that grows keeps what is in it, wherever it moves."""
    w = ramp(4)
    with unclobber.guard():
        a, product = saved_product(w)
        a.untyped_storage().resize_(1 << 20)
        a[1] = 0
        product.backward()
    assert w.grad.tolist() == [3.0] * 4


@pytest.mark.parametrize("context", [unclobber.watch, unclobber.guard])
def test_resize_returns_and_fails_as_before(context):
    """The method is torch's but for our look."""
    with context():
        storage = torch.zeros(4).untyped_storage()
        assert storage.resize_(4) is storage
        assert storage.nbytes() == 4
        with pytest.raises(RuntimeError, match="expects an int"):
            storage.resize_("four")
    unclobber.uninstall()
    assert "resize_" not in vars(torch.UntypedStorage)


def test_what_is_left_after_shrinking_is_guarded():
    """Only the bytes beyond the new size are gone."""
    w = ramp(2)
    with unclobber.guard():
        a = torch.full((4,), 3.0, dtype=w.dtype)
        product = (w * a[:2]).sum()
        a.untyped_storage().resize_(16)
        a[:2].zero_()
        product.backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_frozen_memory_can_not_be_given_back():
    """``freeze`` raises at the line that shrinks the storage, as far as it reaches what is frozen."""
    a = torch.ones(4)
    handle = unclobber.freeze(a[:2])
    try:
        a.untyped_storage().resize_(8)
        with pytest.raises(unclobber.InplaceError):
            a.untyped_storage().resize_(4)
    finally:
        handle.remove()
    a.untyped_storage().resize_(0)
