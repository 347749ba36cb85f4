"""Regions: the set of bytes of its storage that a strided tensor covers, and the overlap of two regions.

Strided overlap is no interval question: ``x[::2]`` and ``x[1::2]`` interleave without sharing a
byte, and so do a row and a column block. The test here is exact.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import torch

BITMAP_LIMIT = 1 << 26  # bytes of address range above which `overlaps` prefers "yes" to a bitmap of that size


class Region(NamedTuple):
    """The bytes of a non-empty strided tensor, relative to the start of its storage."""

    lo: int  # offset of the first byte
    hi: int  # offset after the last byte
    dense: bool  # whether every byte from `lo` to `hi` is covered
    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in elements, as torch gives them
    nbytes: int  # distinct bytes, expanded dimensions counted once (an upper bound for other self-overlaps)

    def moved(self, shift: int) -> Region:
        """Return the region counted from a storage start that is ``shift`` bytes further to the front."""
        return self._replace(lo=self.lo + shift, hi=self.hi + shift) if shift else self

    def overlaps(self, other: Region) -> bool:
        """Return whether two regions of one storage share a byte.

        Exact up to an address range of 64 MiB for layouts that no mixed-radix number system holds;
        beyond that it may say yes where the truth is no.

        Example:
            >>> x = torch.zeros(4, 6)
            >>> region_of(x[:, ::2]).overlaps(region_of(x[:, 1::2]))
            False
        """
        if self.hi <= other.lo or other.hi <= self.lo:
            return False
        # Equal starts and item sizes share their first element, whatever their strides are.
        if (self.dense and other.dense) or (self.lo == other.lo and self.itemsize == other.itemsize):
            return True
        answer = _by_digits(self, other)
        return _by_bitmap(self, other) if answer is None else answer


def region_of(tensor: torch.Tensor) -> Region | None:
    """Return the region of a strided tensor of any shape, or None if it has no elements.

    Example:
        >>> x = torch.zeros(4, 6)
        >>> region_of(x[1:3])[:2], region_of(x[:, 1]).nbytes
        ((24, 72), 16)
    """
    return region_at(tensor.itemsize, int(tensor.storage_offset()), tensor.size(), tensor.stride())


@functools.lru_cache(maxsize=1024)  # a save and each write need it, of few layouts; a look-up takes a tenth
def region_at(item: int, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Region | None:
    """Return the region of a tensor, given the bytes of an element and its place in elements."""
    lo = offset * item
    span = nbytes = item
    for size, stride in zip(sizes, strides, strict=True):
        if size == 0:
            return None
        if stride:  # an expanded dimension covers no byte more
            span += (size - 1) * stride * item
            nbytes *= size
    return Region(lo, lo + span, span == nbytes, item, tuple(sizes), tuple(strides), nbytes)


def _runs(region: Region) -> list[tuple[int, int]]:
    """Return (stride in bytes, count) of each dimension from the innermost out, contiguous ones merged."""
    steps = [(1, region.itemsize)]
    steps += [
        (stride * region.itemsize, size)
        for size, stride in zip(region.sizes, region.strides, strict=True)
        if size > 1 and stride
    ]
    steps.sort()
    merged = [steps[0]]
    for stride, count in steps[1:]:
        inner, inner_count = merged[-1]
        if inner * inner_count == stride:
            merged[-1] = (inner, inner_count * count)
        else:
            merged.append((stride, count))
    return merged


@functools.lru_cache(maxsize=1024)  # each training step compares the regions of the step before again
def _by_digits(a: Region, b: Region) -> bool | None:
    """Compare digit ranges if all strides form one mixed-radix system; return None if they don't.

    Each byte address is then a number whose digits run over independent ranges, and the regions
    meet exactly if every digit's ranges meet.
    """
    steps_a, steps_b = _runs(a), _runs(b)
    runs_a, runs_b = dict(steps_a), dict(steps_b)
    if len(runs_a) != len(steps_a) or len(runs_b) != len(steps_b):
        return None  # two dimensions of one stride: a self-overlapping view
    radices = sorted(runs_a.keys() | runs_b.keys())
    if any(big % small for small, big in itertools.pairwise(radices)):
        return None
    left_a, left_b = a.lo, b.lo
    apart = False
    for index in range(len(radices) - 1, -1, -1):
        radix = radices[index]
        digit_a, left_a = divmod(left_a, radix)
        digit_b, left_b = divmod(left_b, radix)
        count_a, count_b = runs_a.get(radix, 1), runs_b.get(radix, 1)
        if index + 1 < len(radices):
            base = radices[index + 1] // radix
            if digit_a + count_a > base or digit_b + count_b > base:
                return None  # a digit carries over: not independent
        if digit_a + count_a <= digit_b or digit_b + count_b <= digit_a:
            apart = True
    return not apart


def _by_bitmap(a: Region, b: Region) -> bool:
    """Return whether the regions overlap, by painting one into a byte map and reading the other's bytes."""
    from ...torch_internals import compat

    base = min(a.lo, b.lo)
    extent = max(a.hi, b.hi) - base
    if extent > BITMAP_LIMIT:
        return True
    with compat.dispatcher.unseen_by_torch():
        bitmap = torch.zeros(extent, dtype=torch.bool)
        painted, looked = (
            bitmap.as_strided(
                (*region.sizes, region.itemsize),
                (*(stride * region.itemsize for stride in region.strides), 1),
                region.lo - base,
            )
            for region in (a, b)
        )
        painted.fill_(True)
        return bool(looked.any())
