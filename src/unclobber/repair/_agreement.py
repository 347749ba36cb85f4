"""Agreement of two tensors up to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import torch

ROUNDING = 32
"""Tolerance in machine epsilons of the tensor's largest element: room for another order of summation, and for
nothing else."""


@dataclass
class Difference:
    """The difference of two runs."""

    why: str = ""
    compared: int = 0
    leaves: int = 0
    gradients: int = 0
    largest: float = 0.0


def agree(one: torch.Tensor | None, other: torch.Tensor | None, found: Difference) -> bool:
    """Return whether two tensors agree up to rounding; record the largest relative difference in
    ``found``."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one, other = one.to_dense().cpu(), other.to_dense().cpu()
    if torch.equal(one, other):
        return True
    if not (one.is_floating_point() or one.is_complex()):
        return False
    if not torch.equal(one.isfinite(), other.isfinite()):
        return False
    if not torch.equal(one.isnan(), other.isnan()):
        return False
    finite = one.isfinite()
    if not torch.equal(one[~finite].nan_to_num(), other[~finite].nan_to_num()):
        return False
    wide = torch.complex128 if one.is_complex() else torch.float64
    a, b = one[finite].to(wide), other[finite].to(wide)
    if not a.numel():
        return True
    scale = float(torch.maximum(a.abs().max(), b.abs().max()))
    relative = float((a - b).abs().max()) / scale if scale else 0.0
    if relative > ROUNDING * torch.finfo(one.dtype).eps:
        return False
    found.largest = max(found.largest, relative)
    return True
