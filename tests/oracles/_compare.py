"""Compare the gradients of two runs."""

from __future__ import annotations

import torch
from torch import Tensor

from ._source import Gradients


def same_bits(left: Gradients, right: Gradients) -> bool:
    """Whether both runs made the same passes with the same gradients to the last bit.

    None is not zero here: torch gives None where no path leads to a leaf.
    """
    return len(left) == len(right) and all(
        len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(left, right, strict=True)
    )


def close(left: Gradients, right: Gradients, tolerance: float = 1e-10) -> bool:
    """Whether both runs agree, None counting as zero.

    The difference may be ``tolerance`` times the largest gradient of that leaf (or 1): a graph
    without in-place operations adds up in another order.
    """
    return len(left) == len(right) and all(
        len(a) == len(b) and all(_close(x, y, tolerance) for x, y in zip(a, b, strict=True))
        for a, b in zip(left, right, strict=True)
    )


def describe(left: Gradients, right: Gradients) -> str:
    """Both gradients of every pass that is not close, for the message of a failed test."""
    lines = [f"{len(left)} against {len(right)} passes"]
    for n, (a, b) in enumerate(zip(left, right, strict=False)):
        for leaf, (x, y) in enumerate(zip(a, b, strict=True)):
            if not _close(x, y, 1e-10):
                lines.append(f"pass {n}, leaf {leaf}:\n  {x}\n  {y}")
    return "\n".join(lines)


def _same(x: Tensor | None, y: Tensor | None) -> bool:
    if x is None or y is None:
        return x is y
    return torch.equal(x, y)


def _close(x: Tensor | None, y: Tensor | None, tolerance: float) -> bool:
    if x is None or y is None:
        other = x if y is None else y
        return other is None or not bool(other.any())
    if x.shape != y.shape:
        return False
    scale = max(1.0, float(y.abs().max()) if y.numel() else 0.0)
    return bool(((x - y).abs() <= tolerance * scale).all())
