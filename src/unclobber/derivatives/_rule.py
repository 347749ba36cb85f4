"""One row of torch's derivative table: what an operation keeps, and what reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation, as the schema has it."""

    name: str
    type: str
    """``Tensor``, ``Tensor?``, ``Tensor[]``, ``Scalar``, ``int`` …"""
    default: str | None = None
    keyword_only: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")


@dataclass(frozen=True, slots=True)
class GradientFormula:
    """One formula, with what it reads."""

    of: tuple[str, ...]
    """The arguments whose gradient it computes."""
    formula: str
    """Torch's own C++ formula, one line."""
    reads: tuple[str, ...]
    """The kept tensors that it reads, inputs first."""


@dataclass(frozen=True, slots=True)
class SavedRole:
    """One tensor that the backward node keeps."""

    role: str
    """Its name on the node: ``self``, ``result``, ``indices``."""
    output: bool
    """Whether it is something that the operation computed."""
    gradients: tuple[str, ...]
    """The arguments whose gradients read it."""
    only_if: str | None = None
    """Kept only if this argument needs a gradient; None: kept whenever the node is made."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One operation of the table: one backward node."""

    node: str | None
    """``MmBackward0``; None where no gradient exists."""
    operation: str
    """``mm``"""
    overload: str
    """``Tensor_Scalar``; empty for the default one."""
    key: str
    """The dispatch key it holds for, mostly ``Default``."""
    schema: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    """Names of the outputs; ``result``, or ``result0``, ``result1`` where the schema has none."""
    gradients: tuple[GradientFormula, ...]
    kept: tuple[SavedRole, ...]

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The arguments with a gradient, in the order of the node's ``next_functions``."""
        some = {name for gradient in self.gradients for name in gradient.of}
        return tuple(argument.name for argument in self.arguments if argument.name in some)

    def keeps(self, role: str) -> SavedRole | None:
        """The kept tensor called ``role``; an index such as ``indices[0]`` is dropped."""
        name = role.partition("[")[0]
        return next((kept for kept in self.kept if kept.role == name), None)

    def needed(self, edges: Sequence[object]) -> frozenset[str] | None:
        """The arguments whose gradients this node was made to compute.

        Args:
            edges: One entry for each of the node's ``next_functions``, falsy for a missing one.
        Returns:
            None where the edges don't line up with the arguments (lists of tensors).
        """
        names = self.differentiable
        if len(edges) != len(names):
            return None
        return frozenset(name for name, edge in zip(names, edges, strict=True) if edge)

    def readers(self, role: str, needed: Iterable[str] | None = None) -> tuple[GradientFormula, ...]:
        """The formulas that read ``role``, of those for ``needed`` arguments if they are known."""
        name = role.partition("[")[0]
        wanted = None if needed is None else set(needed)
        return tuple(
            gradient
            for gradient in self.gradients
            if name in gradient.reads and (wanted is None or wanted & set(gradient.of))
        )
