"""Run small programs in torch and say what became of their gradients.

A program is Python text in which ``w`` is a leaf, ``v`` another one and ``c`` a tensor that needs no
gradient, and whose last expression is the loss. Its twin never writes in place: the gradients of
the twin are the right ones.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

import unclobber
from unclobber import InplaceError, SilentWriteWarning

Verdict = Literal["right", "refused at the write", "refused at backward", "wrong, silently", "wrong, warned"]

MARKS: dict[Verdict, str] = {
    "right": "✓ right",
    "refused at the write": "✗ refused at the write",
    "refused at backward": "✗ refused at `backward`",
    "wrong, silently": "**‼ wrong, no error**",
    "wrong, warned": "⚠ wrong, with a warning",
}
"""Each verdict in a table; a mark and words, for nobody should need colours to read it."""

SHORT: dict[Verdict, str] = {
    "right": "✓",
    "refused at the write": "✗",
    "refused at backward": "✗",
    "wrong, silently": "**‼**",
    "wrong, warned": "⚠",
}
"""The same for tables of many columns, with words beside them."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program and what it would be without in-place operations."""

    source: str
    """Statements on lines of their own; the last line is an expression, the loss."""
    twin: str
    """The same; gives the right gradient."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a program."""

    verdict: Verdict
    error: str | None = None


def leaves() -> dict[str, Any]:
    """The names that every program finds, always with the same values."""
    make = {"dtype": torch.float64}
    return {
        "torch": torch,
        "F": functional,
        "w": torch.tensor([1.5, 2.0, 3.0], **make, requires_grad=True),
        "v": torch.tensor([0.5, 0.25, 2.0], **make, requires_grad=True),
        "c": torch.tensor([2.0, 0.5, 1.0], **make),
    }


def run(program: Program, context: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Result:
    """Run a program under a context and compare its gradients with its twin's."""
    right = _gradients(program.twin, leaves())
    names = leaves()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with context():
            try:
                loss = _loss(program.source, names)
            except (RuntimeError, InplaceError) as error:
                return Result("refused at the write", str(error))
            try:
                loss.backward()
            except (RuntimeError, InplaceError) as error:
                return Result("refused at backward", str(error))
    if _same(right, (names["w"].grad, names["v"].grad)):
        return Result("right")
    told = any(issubclass(one.category, SilentWriteWarning) for one in warned)
    return Result("wrong, warned" if told else "wrong, silently")


def code_of(program: Program) -> str | None:
    """The code that ``unclobber.watch`` finds in it; None where it has nothing to say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SilentWriteWarning)
        watch = unclobber.watch()
        with contextlib.suppress(InplaceError), watch:
            _loss(program.source, leaves()).backward()
    return watch.findings[0].code if watch.findings else None


def saved_by(expression: str) -> tuple[str, ...]:
    """What an expression of ``u`` saves: ``u``, ``v``, ``c``, ``y`` for its result, or ``another tensor``."""
    names = leaves()
    names["u"] = names["w"] * 1
    packed: list[torch.Tensor] = []
    torch.manual_seed(0)
    with saved_tensors_hooks(lambda tensor: packed.append(tensor) or tensor.detach(), lambda tensor: tensor):
        names["y"] = eval(expression, names)
    homes = {names[name].untyped_storage().data_ptr(): name for name in "uvcy"}
    found = [homes.get(tensor.untyped_storage().data_ptr(), "another tensor") for tensor in packed]
    return tuple(dict.fromkeys(found))


def _gradients(source: str, names: dict[str, Any]) -> tuple[torch.Tensor | None, ...]:
    _loss(source, names).backward()
    return names["w"].grad, names["v"].grad


def _loss(source: str, names: dict[str, Any]) -> torch.Tensor:
    *statements, loss = source.strip().splitlines()
    torch.manual_seed(0)  # for dropout
    exec("\n".join(statements), names)
    value: torch.Tensor = eval(loss, names)
    return value


def _same(right: tuple[torch.Tensor | None, ...], found: tuple[torch.Tensor | None, ...]) -> bool:
    """Equal, where no gradient and a gradient of zeros are the same."""
    for one, other in zip(right, found, strict=True):
        if one is None or other is None:
            if any(gradient is not None and bool(gradient.any()) for gradient in (one, other)):
                return False
        elif not torch.allclose(one, other):
            return False
    return True
