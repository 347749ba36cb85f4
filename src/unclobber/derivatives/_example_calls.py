"""Small calls of functions that have no derivative of their own, and of modules and statements.

torch's table doesn't list the tensors that such a call saves, so a run of the installed torch shows them
(``_measured``). The calls stand in the table of operations, as texts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..syntax import torch_table


@dataclass(frozen=True, slots=True)
class ExampleTensor:
    """A tensor of a call."""

    name: str
    shape: tuple[int, ...]
    kind: str  # `float`, `int` or `bool`; only the first can need a gradient
    constant: bool  # whether the tensor is passed without a gradient


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call, as a user would write it."""

    when: str  # the case in which this call runs; empty for the usual one
    text: str
    results: tuple[str, ...]
    tensors: tuple[ExampleTensor, ...]


def _read(text: str) -> ExampleCall:  # `when | call -> results | tensors`
    *when, call, tensors = text.split(" | ")
    expression, _, results = call.partition(" -> ")
    return ExampleCall("".join(when), expression, tuple((results or "result").split(", ")), _tensors(tensors))


def _tensors(text: str) -> tuple[ExampleTensor, ...]:
    """Parse a line's tensors: ``input 2x3, target 4int``."""
    tensors = []
    for part in text.split(", "):
        name, shape = part.split()
        kind = next((kind for kind in ("int", "bool") if shape.endswith(kind)), "float")
        sizes = shape.removesuffix("!").removesuffix(kind).split("x")
        tensors.append(ExampleTensor(name, tuple(map(int, sizes)), kind, shape.endswith("!")))
    return tuple(tensors)


CALLS = {name: tuple(map(_read, texts)) for name, texts in torch_table().calls.items()}
"""The calls of each name that show which tensors it saves in each case."""
