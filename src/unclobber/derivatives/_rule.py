"""A row of torch's derivative table: the tensors that an operation saves, and the gradients that read
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Argument(NamedTuple):
    """An argument of an operation, as in its schema."""

    name: str
    type: str  # `Tensor`, `Tensor?`, `Tensor[]`, `Scalar`, `int` …
    default: str | None = None
    keyword_only: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")


class GradientFormula(NamedTuple):
    """A derivative formula, with the saved tensors that it reads."""

    of: tuple[str, ...]  # the arguments whose gradient it computes
    formula: str  # torch's own C++ formula, one line
    reads: tuple[str, ...]  # the saved tensors that it reads, inputs first


class SavedRole(NamedTuple):
    """A tensor that the backward node saves."""

    role: str  # its name on the node: ``self``, ``result``, ``indices``
    output: bool  # whether the operation computed it
    gradients: tuple[str, ...]  # the arguments whose gradients read it
    only_if: tuple[str, ...] = ()
    """The arguments of which one must need a gradient for the tensor to be saved; empty: saved whenever the
    node is made."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An operation of the table with one backward node."""

    node: str | None  # `MmBackward0`; None if no gradient exists
    operation: str  # `mm`
    overload: str  # `Tensor_Scalar`; empty for the default one
    key: str  # the dispatch key of the row, mostly `Default`
    schema: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]  # names of the outputs; `result`, or `result0`, `result1` if the schema has none
    gradients: tuple[GradientFormula, ...]
    kept: tuple[SavedRole, ...]

    @property
    def is_view(self) -> bool:
        return bool(re.search(r"\([a-z]\)", self.schema.partition("->")[2]))

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.arguments if argument.is_tensor)

    def type_of(self, name: str) -> str:
        return next((argument.type for argument in self.arguments if argument.name == name), "")

    @property
    def differentiable(self) -> tuple[str, ...]:  # in the order of the node's `next_functions`
        some = {name for gradient in self.gradients for name in gradient.of}
        return tuple(argument.name for argument in self.arguments if argument.name in some)

    def keeps(self, role: str) -> SavedRole | None:  # `indices[0]` is one of `indices`
        name = role.partition("[")[0]
        return next((kept for kept in self.kept if kept.role == name), None)

    def needed(self, edges: Sequence[object]) -> frozenset[str] | None:
        """Return the arguments whose gradients this node was made to compute.

        Args:
            edges: One entry for each of the node's ``next_functions``, falsy for a missing one.
        Returns:
            None if the edges don't match the arguments one by one (lists of tensors).
        """
        names = self.differentiable
        if len(edges) != len(names):
            return None
        return frozenset(name for name, edge in zip(names, edges, strict=True) if edge)

    def readers(self, role: str, needed: Iterable[str] | None = None) -> tuple[GradientFormula, ...]:
        """Return the formulas that read ``role``, only those for ``needed`` arguments if these are known."""
        name = role.partition("[")[0]
        wanted = None if needed is None else set(needed)
        return tuple(
            gradient
            for gradient in self.gradients
            if name in gradient.reads and (wanted is None or wanted & set(gradient.of))
        )
