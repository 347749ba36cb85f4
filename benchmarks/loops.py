"""A loop that saves a whole table at each step and then overwrites one row of it.

What has to be kept is what is overwritten: one row per step. A copy at each write keeps a table per
step instead, which grows with the square of the number of steps.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from measure import clock
from torch import Tensor

import unclobber

WIDTH = 64
VALUE = 5.0
"""Far from the table's own values in [0, 1]: a gradient from the wrong rows shows."""

Form = Literal["slice", "index"]


@dataclass(frozen=True, slots=True)
class Run:
    """One loop in one mode."""

    mode: str
    steps: int
    kept: int
    """Bytes of old values that were held when the forward had ended."""
    seconds: float
    """Forward and backward, CPU time of one thread."""
    right: bool
    """Whether the gradient was that of the program as written."""

    @property
    def overwritten(self) -> int:
        """Bytes overwritten while a derivative needed them: a row per step."""
        return self.steps * WIDTH * 4


def unchecked() -> AbstractContextManager[Any]:
    """The program's own time: nothing is kept, and the gradient is wrong."""
    return torch.autograd.graph.saved_tensors_hooks(Tensor.detach, lambda tensor: tensor)


MODES: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Callable[[Any], int]]] = {
    "unchecked": (unchecked, lambda context: 0),
    "guard": (unclobber.guard, lambda context: context.kept_bytes),
    "allow_mutation": (
        torch.autograd.graph.allow_mutation_on_saved_tensors,
        lambda context: sum(clone.nbytes for clone in context.cloned.values()),
    ),
}


def run(mode: str, steps: int, form: Form) -> Run:
    """Run the loop once, on a table of ``steps`` rows."""
    torch.manual_seed(0)
    weight = torch.ones(WIDTH, requires_grad=True)
    table = torch.rand(steps, WIDTH)
    expected = expected_gradient(table)
    rows = [torch.tensor([i]) for i in range(steps)]
    context, kept_bytes = MODES[mode]
    gc.collect()
    with context() as active:
        start = clock()
        loss = torch.zeros(())
        for i in range(steps):
            loss = loss + (table * weight).sum()
            if form == "slice":
                table[i] = VALUE
            else:
                table.index_fill_(0, rows[i], VALUE)
        kept = kept_bytes(active)
        loss.backward()
        seconds = clock() - start
    right = torch.allclose(weight.grad.double(), expected, rtol=1e-4)
    return Run(mode, steps, kept, seconds, right)


def expected_gradient(table: Tensor) -> Tensor:
    """The derivative in closed form: the sum over all steps of the table's column sums then."""
    rows = table.double()
    steps = len(rows)
    # Row i is itself in the first i + 1 products and VALUE in the rest.
    itself = torch.arange(1, steps + 1, dtype=torch.float64)[:, None]
    return (rows * itself + VALUE * (steps - itself)).sum(0)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The slope of the values against the sizes on two logarithmic axes; None where a value is 0.

    Example:
        >>> round(exponent([1, 10, 100], [3, 300, 30000]), 6)
        2.0
    """
    if len(sizes) < 2 or min(values) <= 0:
        return None
    xs, ys = [math.log(x) for x in sizes], [math.log(y) for y in values]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)
