"""Names of the modules that run, and of variables that hold tensors, or graphs with them, when the recorded
backward begins."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..source import ProgramNames
from ..torch_internals import compat

Named = tuple[int, str]  # tree and path of a module


@dataclass(slots=True, eq=False)
class ModuleName:
    """A module, as reports name it."""

    path: str  # path from the module that was called first; empty for that one itself
    kind: str  # the name of its class
    tree: int  # number of its outermost module, in the order of their calls

    @property
    def label(self) -> str:
        return f"{self.path} ({self.kind})" if self.path else self.kind

    @property
    def key(self) -> Named:
        return self.tree, self.path


class ModuleNames:
    """The modules that have run, each named from the outermost one at that one's first call.

    Args:
        learners: Called with each outermost module at its first call, before it runs, and its number.
    """

    def __init__(self, *learners: Callable[[nn.Module, int], object]) -> None:
        self._known: dict[int, tuple[weakref.ref[nn.Module], ModuleName]] = {}
        self._trees = 0
        self.learners = list(learners)

    def of(self, module: nn.Module) -> ModuleName:
        # By a weak reference next to the id, because another module may get the id of a dead one.
        if id(module) not in self._known or self._known[id(module)][0]() is not module:
            self.learn(module)
        return self._known[id(module)][1]  # an unknown one names all modules below it, too

    def learn(self, root: nn.Module) -> None:
        tree, self._trees = self._trees, self._trees + 1
        for path, module in root.named_modules():
            self._known[id(module)] = (weakref.ref(module), ModuleName(path, type(module).__name__, tree))
        for learner in self.learners:
            learner(root, tree)

    def alive(self) -> list[nn.Module]:
        return [module for known, _ in self._known.values() if (module := known()) is not None]


@dataclass(frozen=True)
class HeldName:
    """A tensor that a name leads to."""

    name: str  # the name as the program would write it: `outputs[2]`, `out.logits`
    storage: int  # number of the tensor's storage
    keeps: frozenset[int]  # storages that only its graph keeps, which this backward doesn't free

    @property
    def variable(self) -> str:
        return re.sub(r"\[[^\]]*\]$", "", self.name)  # `outputs` for `outputs[2]`


def held_names(number_of: Callable[[Tensor], int | None], freed: set[Any]) -> list[HeldName]:
    """Return the tensors that the program's variables lead to now."""
    return [
        HeldName(name, number, frozenset(_kept_by(tensor, freed)))
        for name, tensor in ProgramNames().tensors()
        if (number := number_of(tensor)) is not None
    ]


def _kept_by(tensor: Tensor, freed: set[Any]) -> Iterator[int]:
    """Yield the storages that a tensor's graph keeps outside of the graph that is freed."""
    node = compat.graph.grad_fn(tensor) if compat.graph.has_history(tensor) else None
    for current in compat.graph.nodes_below([node], but=freed):
        for _, held in compat.kept.raw_saved(current):
            # By attribute and not by class, because the recorder defines the class and imports this module.
            save = getattr(held, "save", None)
            if save is not None:
                yield save.storage.number
