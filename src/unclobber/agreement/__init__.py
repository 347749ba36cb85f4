"""Comparison of two tensors that two runs of a program computed."""

from __future__ import annotations

import torch

__all__ = ["difference", "rounding"]


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest difference of two elements, relative to the largest finite element of both tensors.

    Returns:
        0.0 if all elements are equal, where a NaN equals a NaN. Infinity if no rounding explains it: another
        shape, dtype, integer or bool, or other elements that are NaN or infinite.
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    one, other = one.to_dense().cpu(), other.to_dense().cpu()
    if torch.equal(one, other):
        return 0.0
    if not (one.is_floating_point() or one.is_complex()):
        return float("inf")
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()) or not torch.equal(one.isnan(), other.isnan()):
        return float("inf")
    if not torch.equal(one[~finite].nan_to_num(), other[~finite].nan_to_num()):  # -inf for inf
        return float("inf")
    one, other = one[finite], other[finite]
    if torch.equal(one, other):
        return 0.0
    scale = float(torch.maximum(one.abs().max(), other.abs().max()))
    # What differs is never 0, even where the quotient is too small for a float.
    return float((one - other).abs().max()) / scale or 1e-300


def rounding(tensor: torch.Tensor, epsilons: int) -> float:
    """Return how large a `difference` of this tensor's dtype may be, in so many machine epsilons; 0.0 for
    integers and bools."""
    rounded = tensor.is_floating_point() or tensor.is_complex()
    return epsilons * torch.finfo(tensor.dtype).eps if rounded else 0.0
