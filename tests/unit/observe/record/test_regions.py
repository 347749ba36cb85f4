"""Regions and their overlap are exact, whatever the strides."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from strided_views import bytes_of, pairs

from unclobber.observe.record import _region, region_of

MANY = settings(
    max_examples=500,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def described(view):
    return tuple(view.shape), view.stride(), view.storage_offset(), view.dtype


@MANY
@given(pair=pairs())
def test_overlap_is_that_of_the_bytes(pair):
    """Two views overlap exactly if they share a byte."""
    a, b = map(region_of, pair)
    truth = bool(bytes_of(pair[0]) & bytes_of(pair[1]))
    answer = a is not None and b is not None and a.overlaps(b)
    assert answer == truth, [described(view) for view in pair]
    if a is not None and b is not None:
        assert b.overlaps(a) == answer


@MANY
@given(pair=pairs())
def test_region_bounds_its_bytes(pair):
    """The range is tight, ``dense`` means no gap, and ``nbytes`` is no less than what is covered."""
    view = pair[0]
    region, covered = region_of(view), bytes_of(view)
    if region is None:
        assert not covered
        return
    assert (region.lo, region.hi) == (min(covered), max(covered) + 1)
    assert region.nbytes >= len(covered)
    if region.dense:
        assert len(covered) == region.hi - region.lo


@MANY
@given(pair=pairs())
def test_digits_and_bitmap_agree(pair):
    """Where the quick way by digits has an answer, it is that of the bitmap."""
    a, b = map(region_of, pair)
    if a is None or b is None or a.hi <= b.lo or b.hi <= a.lo:
        return
    quick = _region._by_digits(a, b)
    assert quick in (None, _region._by_bitmap(a, b))


def test_interleaved_views_do_not_meet():
    """Even and odd elements, even and odd columns, two diagonals."""
    x = torch.empty(6, 8)
    for a, b in [
        (x.view(-1)[::2], x.view(-1)[1::2]),
        (x[:, ::2], x[:, 1::2]),
        (x.diagonal(), x.diagonal(1)),
        (x[:3, :4], x[3:, :4]),
        (x[:, :3], x[:, 3:]),
    ]:
        assert not region_of(a).overlaps(region_of(b))


def test_parts_of_one_element_meet():
    """A view of another dtype covers some of an element's bytes."""
    x = torch.empty(4, dtype=torch.float64)
    assert region_of(x[1]).overlaps(region_of(x.view(torch.uint8)[15]))
    assert not region_of(x[1]).overlaps(region_of(x.view(torch.uint8)[16]))


@pytest.mark.parametrize("empty", [torch.empty(0), torch.empty(3, 0), torch.empty(4)[2:2]])
def test_no_elements_no_region(empty):
    """There is nothing to overlap."""
    assert region_of(empty) is None


def test_scalar():
    """A tensor without dimensions is one element."""
    assert region_of(torch.empty(4)[3])[:3] == (12, 16, True)


def test_beyond_the_bitmap_the_answer_is_yes():
    """A layout that no number system holds, over more memory than the bitmap may have: better a needless
    copy than a missed write."""
    far = _region.BITMAP_LIMIT
    meta = torch.empty(2 * far, dtype=torch.uint8, device="meta")
    a = region_of(meta.as_strided((far // 4, 2), (5, 3)))
    b = region_of(meta.as_strided((far // 4, 2), (5, 3), 1))
    assert _region._by_digits(a, b) is None
    assert a.overlaps(b)


def test_helper_counts_bytes():
    """The brute force is right where it can be counted by hand."""
    x = torch.empty(4, dtype=torch.int16)
    assert bytes_of(x[1::2]) == {2, 3, 6, 7}
    assert bytes_of(x[0].expand(5)) == {0, 1}
    assert bytes_of(x[:0]) == set()
