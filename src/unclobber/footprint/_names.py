"""Names of the program that hold tensors, and graphs with them, when the recorded backward begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..source import ProgramNames
from ..torch_internals import compat


@dataclass(frozen=True)
class HeldName:
    """A tensor that a name leads to."""

    name: str
    """The name as the program would write it: ``outputs[2]``, ``out.logits``."""
    storage: int
    """Number of the tensor's storage."""
    keeps: frozenset[int]
    """Storages that only its graph keeps, which this backward doesn't free."""

    @property
    def variable(self) -> str:
        """The name without numbers and keys of containers: ``outputs`` for ``outputs[2]``."""
        return re.sub(r"\[[^\]]*\]$", "", self.name)


def held_names(number_of: Callable[[Tensor], int | None], freed: set[Any]) -> list[HeldName]:
    """Return the tensors that the program's variables lead to now.

    Args:
        number_of: Returns the number of a tensor's storage in the recording, or None.
        freed: The nodes of the graph whose backward begins.
    """
    names = []
    for name, tensor in ProgramNames().tensors():
        number = number_of(tensor)
        if number is not None:
            names.append(HeldName(name, number, frozenset(_kept_by(tensor, freed))))
    return names


def _kept_by(tensor: Tensor, freed: set[Any]) -> Iterator[int]:
    """Yield the storages that a tensor's graph keeps outside of the graph that is freed."""
    node = compat.graph.grad_fn(tensor) if compat.graph.has_history(tensor) else None
    for current in compat.graph.nodes_below([node], but=freed):
        for _, held in compat.kept.raw_saved(current):
            # By attribute and not by class, because the recorder defines the class and imports this module.
            number = getattr(getattr(held, "save", None), "storage", None)
            if number is not None:
                yield number
