"""Comparison of two tensors that two runs of a program computed."""

from __future__ import annotations

from typing import NamedTuple

import torch

ROUNDING = 32
"""Machine epsilons of the largest element by which two tensors may differ and still count as equal: sums are
taken in another order, and a fused formula rounds at other places than its parts."""


class Difference(NamedTuple):
    """A comparison of two tensors."""

    relative: float  # as `difference` returns it
    allowed: float  # the most that rounding explains; 0.0 for integers and bools

    @property
    def is_rounding(self) -> bool:
        return self.relative <= self.allowed


def compared(first: torch.Tensor, second: torch.Tensor) -> Difference:
    rounded = first.is_floating_point() or first.is_complex()
    return Difference(difference(first, second), ROUNDING * torch.finfo(first.dtype).eps if rounded else 0.0)


def difference(first: torch.Tensor, second: torch.Tensor) -> float:
    """Return the largest difference of two elements, relative to the largest finite element of both tensors.

    Returns:
        0.0 if all elements are equal, where a NaN equals a NaN. Infinity if no rounding explains it: another
        shape, dtype, integer or bool, or other elements that are NaN or infinite.
    """
    if first.shape != second.shape or first.dtype != second.dtype:
        return float("inf")
    first, second = first.to_dense().cpu(), second.to_dense().cpu()
    if torch.equal(first, second):
        return 0.0
    if not (first.is_floating_point() or first.is_complex()):
        return float("inf")
    wide = torch.complex128 if first.is_complex() else torch.float64
    first, second = first.to(wide), second.to(wide)
    finite = first.isfinite()
    if not torch.equal(finite, second.isfinite()) or not torch.equal(first.isnan(), second.isnan()):
        return float("inf")
    if not torch.equal(first[~finite].nan_to_num(), second[~finite].nan_to_num()):  # -inf for inf
        return float("inf")
    first, second = first[finite], second[finite]
    if torch.equal(first, second):
        return 0.0
    scale = float(torch.maximum(first.abs().max(), second.abs().max()))
    # What differs is never 0, even where the quotient is too small for a float.
    return float((first - second).abs().max()) / scale or 1e-300
