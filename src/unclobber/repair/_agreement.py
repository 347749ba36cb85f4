"""Agreement of two tensors up to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..agreement import difference, rounding

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
    relative = difference(one, other)
    if relative > rounding(one, ROUNDING):
        return False
    found.largest = max(found.largest, relative)
    return True
