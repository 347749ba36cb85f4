"""The rules of one overload of an operation: what it keeps, and so what may be overwritten after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Allowed = Literal["yes", "no", "depends"]


@dataclass(frozen=True, slots=True)
class Derivative:
    """One gradient formula."""

    of: tuple[str, ...]
    """The arguments whose gradient it computes."""
    formula: str | None
    """In Python notation, for real tensors; None where torch's own can't be read in full."""
    torch_formula: str
    """Torch's own C++ formula."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One tensor that the operation keeps for its backward."""

    role: str
    """The backward node's name for it: ``self``, ``result``, ``weight``."""
    output: bool
    """Whether the operation computed it."""
    when: str
    """In words: ``always``, ``if `other` needs a gradient``, ``if it is given``."""
    only_if: tuple[str, ...]
    """It is kept if one of these arguments needs a gradient; empty where the node alone decides."""
    optional: bool
    """Whether it is an argument that may be left out."""
    gradients: tuple[str, ...]
    """The arguments whose gradients read it."""
    why: str | None
    """The derivatives that read it."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Whether one tensor may be overwritten between the operation and its backward."""

    name: str
    output: bool
    allowed: Allowed
    reason: str
    """``the gradient of `self` reads it``, ``if no gradient of `other` is needed: …``."""


@dataclass(frozen=True, slots=True)
class InPlace:
    """The in-place variant and what it keeps instead."""

    name: str
    """``exp_``"""
    keeps: tuple[str, ...]
    """One sentence for each kept tensor; empty where it keeps none."""
    copies: bool
    """It keeps a private copy of the old value, so that it spares no memory."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One overload with its backward node."""

    schema: str
    node: str | None
    """None where torch has no gradient for it."""
    gradients: tuple[Derivative, ...]
    saves: tuple[Saved, ...]
    overwrite: tuple[Overwrite, ...]
    in_place: InPlace | None
    view: bool
    """The output shares the input's memory: writing one writes the other."""
    key: str = "Default"
    """The dispatch key that it holds for."""
    when: str = ""
    """Which arguments lead to it, where there are several: ```exponent` is a number``."""

    @property
    def may_overwrite(self) -> Literal["input", "output", "input and output", "neither"]:
        """What may be overwritten whatever needs a gradient."""
        free = {
            output: all(one.allowed == "yes" for one in self.overwrite if one.output == output)
            for output in (False, True)
        }
        if free[False] and free[True]:
            return "input and output"
        return "input" if free[False] else "output" if free[True] else "neither"
