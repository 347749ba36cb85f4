"""Points on a noisy ring, made on the spot."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor


def ring(count: int, *, noise: float = 0.05, generator: torch.Generator) -> Tensor:
    """``count`` points around the unit circle, shape ``(count, 2)``."""
    angle = torch.rand(count, generator=generator) * 2 * math.pi
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    return points + noise * torch.randn(count, 2, generator=generator)


def batches(points: Tensor, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """One epoch: the points in random order, in batches of ``size``; a rest is dropped."""
    order = torch.randperm(len(points), generator=generator)
    for start in range(0, len(points) - size + 1, size):
        yield points[order[start : start + size]]
