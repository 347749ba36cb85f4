"""The rules of one overload of an operation: the tensors that it saves, and those that may be overwritten
after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Allowed = Literal["yes", "no", "depends"]


@dataclass(frozen=True, slots=True)
class Derivative:
    """A gradient formula."""

    of: tuple[str, ...]
    """The arguments whose gradient it computes."""
    formula: str | None
    """The formula in Python notation, for real tensors; None if torch's own can't be read in full."""
    torch_formula: str
    """torch's own C++ formula."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that the operation saves for its backward."""

    role: str
    """The backward node's name for it: ``self``, ``result``, ``weight``."""
    output: bool
    """Whether the operation computed it."""
    when: str
    """The condition in words: ``always``, ``if `other` needs a gradient``, ``if it is given``."""
    only_if: tuple[str, ...]
    """The arguments of which one must need a gradient; empty if the node alone decides."""
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
class InPlaceVariant:
    """The in-place variant and the tensors that it saves instead."""

    name: str
    """``exp_``"""
    keeps: tuple[str, ...]
    """Sentences, one for each saved tensor; empty if it saves none."""
    copies: bool
    """Whether it saves a private copy of the old value, so that it spares no memory."""


@dataclass(frozen=True, slots=True)
class Variant:
    """An overload with its backward node."""

    schema: str
    node: str | None
    """The backward node; None if torch has no gradient for it."""
    key: str
    """The dispatch key of the row: ``Default``."""
    when: str
    """The arguments that select it, if there are several overloads: ```exponent` is a number``."""
    view: bool
    """Whether the output shares the input's memory: writing one writes the other."""
    saves: tuple[Saved, ...]
    gradients: tuple[Derivative, ...]
    overwrite: tuple[Overwrite, ...]
    in_place: InPlaceVariant | None

    @property
    def may_overwrite(self) -> Literal["input", "output", "input and output", "neither"]:
        """The tensors that may be overwritten, whichever arguments need a gradient."""
        free = {
            output: all(answer.allowed == "yes" for answer in self.overwrite if answer.output == output)
            for output in (False, True)
        }
        if free[False] and free[True]:
            return "input and output"
        return "input" if free[False] else "output" if free[True] else "neither"
