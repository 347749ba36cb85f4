"""Value semantics: run a program with immutable storages, never in place.

A storage is a flat tensor of values that every write replaces; a view is a map of indices into it.
What has a gradient history is kept beside the values, because the two part company: a write under
``no_grad`` or through ``.data`` changes the values of a tensor and not its history. A read hands
out the values, with the gradient going to the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from ._program import Alias, Backward, Compute, Leaf, Loss, Program, Step, View, Write
from ._source import Gradients


class _WithValues(torch.autograd.Function):
    """The values of the second argument, with the gradient going to the first."""

    @staticmethod
    def forward(ctx: Any, history: Tensor, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


@dataclass(frozen=True, slots=True)
class Handle:
    """A variable: which storage, which history, and which of their elements."""

    storage: int
    history: int
    index: Tensor
    """Positions in the flat storage, in the shape of the variable."""
    leaf: bool = False

    @property
    def writable(self) -> bool:
        """Whether every element is there once: torch refuses to write through an expansion."""
        return self.index.unique().numel() == self.index.numel()


class Machine:
    """The state of one functional run. A failed step leaves the machine unusable: fork first.

    Example:
        >>> machine = Machine()
        >>> machine.run(Leaf("x", (2,)))
        >>> machine.run(Compute("y", "{0}.exp()", ("x",)))
        >>> machine.run(Write("y", "{0}[0]", "grad", "{0}.zero_()", "{0} * 0"))
        >>> machine.values("y")[0].item()
        0.0
    """

    def __init__(self) -> None:
        self.variables: dict[str, Handle] = {}
        self.gradients: list[tuple[Tensor | None, ...]] = []
        self._leaves: list[Tensor] = []
        self._storages: dict[int, Tensor] = {}
        self._histories: dict[int, Tensor] = {}
        self._numbers = count()
        torch.manual_seed(0)

    def fork(self) -> Machine:
        """An independent copy: the tensors are shared, since none is ever written."""
        twin = Machine.__new__(Machine)
        twin.variables = dict(self.variables)
        twin.gradients = list(self.gradients)
        twin._leaves = list(self._leaves)
        twin._storages = dict(self._storages)
        twin._histories = dict(self._histories)
        twin._numbers = count(next(self._numbers))
        return twin

    def values(self, name: str) -> Tensor:
        """The present values of a variable, without history."""
        handle = self.variables[name]
        return self._storages[handle.storage][handle.index]

    def requires_grad(self, name: str) -> bool:
        return self._histories[self.variables[name].history].requires_grad

    def run(self, step: Step) -> None:
        """Execute one step; raises what torch raises for its expression."""
        match step:
            case Leaf(out, shape):
                leaf = torch.randn(shape, dtype=torch.float64, requires_grad=True)
                self._leaves.append(leaf)
                self._define(out, leaf, leaf=True)
            case Compute(out) | Loss(out):
                self._define(out, self._evaluate(step.expression, step.arguments))
            case View(out, base, place):
                handle = self.variables[base]
                index = _evaluate(place.format("base"), {"base": handle.index})
                self.variables[out] = Handle(handle.storage, handle.history, index, handle.leaf)
            case Alias(out, base):
                self.variables[out] = self._without_history(self.variables[base])
            case Write():
                self._write(step)
            case Backward(loss, out=out):
                self._backward(loss, out)

    def _define(self, name: str, value: Tensor, *, leaf: bool = False) -> None:
        number = next(self._numbers)
        self._storages[number] = value.detach().reshape(-1).clone()
        self._histories[number] = value.reshape(-1)
        # Row-major, whatever the strides of the value in place are: where that makes a difference
        # to ``view``, torch refuses the program, and a refused program has no gradients to compare.
        index = torch.arange(value.numel()).view(value.shape)
        self.variables[name] = Handle(number, number, index, leaf)

    def _without_history(self, handle: Handle) -> Handle:
        number = next(self._numbers)
        self._histories[number] = self._storages[handle.storage]
        return Handle(handle.storage, number, handle.index)

    def _read(self, handle: Handle) -> Tensor:
        values = self._storages[handle.storage][handle.index]
        history = self._histories[handle.history]
        if not (torch.is_grad_enabled() and history.requires_grad):
            return values
        read: Tensor = _WithValues.apply(history[handle.index], values)
        return read

    def _evaluate(self, expression: str, arguments: tuple[str, ...]) -> Tensor:
        return _evaluate(
            expression.format(*arguments), {name: self._read(self.variables[name]) for name in arguments}
        )

    def _write(self, step: Write) -> None:
        mode: AbstractContextManager[object] = (
            torch.no_grad() if step.how in ("no_grad", "inference") else nullcontext()
        )
        with mode:
            whole = self.variables[step.target]
            if step.how in ("data", "detach"):
                whole = self._without_history(whole)
            index = _evaluate(step.place.format("base"), {"base": whole.index})
            target = Handle(whole.storage, whole.history, index)
            operands = {"target": self._read(target)}
            operands |= {name: self._read(self.variables[name]) for name in step.arguments}
            new = _evaluate(step.value.format("target", *step.arguments), operands).expand(index.shape)
            where = (index.reshape(-1),)
            flat = new.reshape(-1)
            self._storages[target.storage] = self._storages[target.storage].index_put(where, flat.detach())
            if torch.is_grad_enabled():
                self._histories[target.history] = self._histories[target.history].index_put(where, flat)

    def _backward(self, loss: str, out: str | None) -> None:
        value = self._read(self.variables[loss])
        found: tuple[Tensor | None, ...] = (None,) * len(self._leaves)
        if value.requires_grad:
            found = torch.autograd.grad(
                value, self._leaves, allow_unused=True, retain_graph=True, create_graph=out is not None
            )
        self.gradients.append(tuple(None if g is None else g.detach().clone() for g in found))
        if out is not None:
            start = torch.zeros((), dtype=torch.float64)
            self._define(out, sum((g.square().sum() for g in found if g is not None), start))


def run_functionally(program: Program) -> Gradients:
    """The gradients of the program as written: each derivative uses the values its operation saw."""
    machine = Machine()
    for step in program.steps:
        machine.run(step)
    return tuple(machine.gradients)


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<step>", "eval")


def _evaluate(expression: str, names: Mapping[str, Tensor]) -> Tensor:
    result: Tensor = eval(_compiled(expression), {"torch": torch, **names})
    return result
