"""Small programs as data: frozen steps whose ``str()`` is the Python that they stand for.

A step keeps its expression as a template: ``{0}``, ``{1}`` … stand for the variables it reads.
An in-place step keeps two templates, the statement and the value that it leaves behind, so that
the same step can be run in place and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

How = Literal["grad", "no_grad", "inference", "data", "detach"]
"""Under which circumstances a write happens: as it stands, or by a way around autograd."""

Form = Literal["sum", "cosine", "squares"]

FORMS: dict[Form, str] = {"sum": "{0}.sum()", "cosine": "{0}.cos().sum()", "squares": "({0} * {0}).sum()"}
"""How a result enters a loss; the last two save the result itself."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of float64 that requires grad."""

    out: str
    shape: tuple[int, ...]

    def lines(self) -> Iterator[str]:
        sizes = ", ".join(map(str, self.shape))
        yield f"{self.out} = torch.randn({sizes}, dtype=torch.float64, requires_grad=True)"


@dataclass(frozen=True, slots=True)
class Compute:
    """A new tensor from others: ``Compute("a", "{0} * {1}", ("x", "y"))``."""

    out: str
    expression: str
    arguments: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        yield f"{self.out} = {self.expression.format(*self.arguments)}"


@dataclass(frozen=True, slots=True)
class View:
    """Another look at the same memory: ``View("v", "a", "{0}[1]")``."""

    out: str
    base: str
    place: str

    def lines(self) -> Iterator[str]:
        yield f"{self.out} = {self.place.format(self.base)}"


@dataclass(frozen=True, slots=True)
class Alias:
    """The same memory without the history."""

    out: str
    base: str
    how: Literal["detach", "data", "no_grad"]

    def lines(self) -> Iterator[str]:
        if self.how == "no_grad":
            yield "with torch.no_grad():"
            yield f"    {self.out} = {self.base}.view_as({self.base})"
        else:
            yield f"{self.out} = {self.base}.{'data' if self.how == 'data' else 'detach()'}"


@dataclass(frozen=True, slots=True)
class Write:
    """An in-place statement on ``place`` of ``target``.

    ``statement`` and ``value`` take the target as ``{0}`` and the arguments from ``{1}`` on:
    ``Write("a", "{0}[1]", "grad", "{0}.mul_({1})", "{0}.mul({1})", ("b",))``.
    """

    target: str
    place: str
    how: How
    statement: str
    value: str
    arguments: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        base = self.target + {"data": ".data", "detach": ".detach()"}.get(self.how, "")
        text = self.statement.format(self.place.format(base), *self.arguments)
        if self.how in ("no_grad", "inference"):
            yield f"with torch.{'no_grad' if self.how == 'no_grad' else 'inference_mode'}():"
            yield f"    {text}"
        else:
            yield text


@dataclass(frozen=True, slots=True)
class Loss:
    """A scalar from several results."""

    out: str
    terms: tuple[tuple[str, Form], ...]

    @property
    def expression(self) -> str:
        """Template over the names of the terms, in order."""
        return " + ".join(FORMS[form].replace("{0}", f"{{{i}}}") for i, (_, form) in enumerate(self.terms))

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)

    def lines(self) -> Iterator[str]:
        yield f"{self.out} = {self.expression.format(*self.arguments)}"


@dataclass(frozen=True, slots=True)
class Backward:
    """One backward pass over ``loss``; with ``out``, the next loss is made from its gradients."""

    loss: str
    retain: bool = True
    out: str | None = None

    def lines(self) -> Iterator[str]:
        if self.out is None:
            yield f"backward({self.loss}, retain_graph={self.retain})"
        else:
            yield f"{self.out} = squares(backward({self.loss}, create_graph=True))"


Step = Leaf | Compute | View | Alias | Write | Loss | Backward

PRELUDE = '''\
import torch


def backward(loss, **options):
    """Note the gradients of the leaves; all None where the loss depends on none of them."""
    if loss.requires_grad:
        found = torch.autograd.grad(loss, leaves, allow_unused=True, **options)
    else:
        found = (None,) * len(leaves)
    gradients.append(found)
    return found


def squares(found):
    return sum((g.square().sum() for g in found if g is not None), torch.zeros((), dtype=torch.float64))


gradients = []
torch.manual_seed(0)'''


@dataclass(frozen=True, slots=True)
class Program:
    """Steps, leaves first. ``str()`` is a whole script that leaves its results in ``gradients``."""

    steps: tuple[Step, ...]

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(step for step in self.steps if isinstance(step, Leaf))

    @property
    def writes(self) -> tuple[Write, ...]:
        return tuple(step for step in self.steps if isinstance(step, Write))

    def __str__(self) -> str:
        lines = [PRELUDE]
        lines += [line for leaf in self.leaves for line in leaf.lines()]
        lines.append(f"leaves = [{', '.join(leaf.out for leaf in self.leaves)}]")
        lines += [line for step in self.steps if not isinstance(step, Leaf) for line in step.lines()]
        return "\n".join(lines) + "\n"
