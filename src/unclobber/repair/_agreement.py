"""Agreement of two tensors up to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..agreement import difference, rounding


@dataclass
class Difference:
    """The difference of two runs."""

    why: str = ""
    compared: int = 0
    leaves: int = 0
    gradients: int = 0
    largest: float = 0.0


def agree(tensor: torch.Tensor | None, other: torch.Tensor | None, total: Difference) -> bool:
    """Return whether two tensors agree up to rounding; record the largest difference in ``total``."""
    if tensor is None or other is None:
        return tensor is other
    relative = difference(tensor, other)
    if relative > rounding(tensor):
        return False
    total.largest = max(total.largest, relative)
    return True
