"""Hold a program that writes in place against its twin that never does.

A program is a function of leaves that runs forward and backward and returns what else is to be
compared (tensors, or nothing). What plain torch makes of it is part of every test: a program that
torch runs and gets right anyway would show nothing about ``guard``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

import unclobber

Program = Callable[..., Any]
Fate = Literal["refused", "wrong", "right"]
Results = list[Tensor | None]


def leaves_like(*leaves: Tensor) -> list[Tensor]:
    """Fresh leaves with equal values; what requires no gradient stays so."""
    return [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]


def results(program: Program, leaves: Sequence[Tensor]) -> Results:
    """What the program returns, and the gradients of its leaves, with the same random numbers each time."""
    fresh = leaves_like(*leaves)
    torch.manual_seed(0)
    returned = program(*fresh)
    more = [] if returned is None else [returned] if isinstance(returned, Tensor) else list(returned)
    return [*(value.detach() for value in more), *(leaf.grad for leaf in fresh)]


def same(a: Results, b: Results) -> bool:
    """Equal to the bit, NaNs included; None is no zero."""
    return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))


def differences(got: Results, expected: Results) -> str:
    """Where two runs part, shortly."""
    lines = ["not the twin's results"]
    for index, (a, b) in enumerate(zip(got, expected, strict=False)):
        if not _equal(a, b):
            lines.append(f"{index}: guarded {a}, twin {b}")
    return "\n".join(lines)[:2000]


def _equal(x: Tensor | None, y: Tensor | None) -> bool:
    if x is None or y is None:
        return x is y
    return x.dtype == y.dtype and x.shape == y.shape and torch.equal(_bytes(x), _bytes(y))


def _bytes(x: Tensor) -> Tensor:
    return x.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)


def fate(program: Program, leaves: Sequence[Tensor], expected: Results) -> Fate:
    """What plain torch makes of the program."""
    try:
        return "right" if same(results(program, leaves), expected) else "wrong"
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return "refused"


def assert_as_written(
    program: Program, twin: Program, *leaves: Tensor, plain: Fate = "refused"
) -> unclobber.guard:
    """Under ``guard`` the program has the twin's results to the bit, and nothing is kept afterwards.

    Returns the context, for what it says about itself.
    """
    expected = results(twin, leaves)
    alone = fate(program, leaves, expected)
    assert alone == plain, f"torch alone: {alone}"
    with unclobber.guard() as g:
        got = results(program, leaves)
        assert same(got, expected), differences(got, expected)
    del got
    gc.collect()
    assert g.kept_bytes == 0
    return g


def ramp(*shape: int, dtype: torch.dtype = torch.float64, grad: bool = True) -> Tensor:
    """A leaf with distinct values between 0.5 and 1.5."""
    count = 1
    for size in shape:
        count *= size
    values = torch.linspace(0.5, 1.5, max(count, 1), dtype=torch.float64)[:count]
    return values.reshape(shape).to(dtype).requires_grad_(grad)
