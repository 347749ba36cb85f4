"""What a recorder writes down while a program runs: plain, mutable, interpreted later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..source import Stack
from ._facts import Kind
from ._names import HeldName


class KnowsModule(Protocol):
    """Says in which module the program was, or is."""

    @property
    def module(self) -> str | None: ...


def modules_of(ones: Iterable[KnowsModule]) -> tuple[str, ...]:
    """Each module once, in order."""
    return tuple(dict.fromkeys(one.module for one in ones if one.module is not None))


@dataclass(slots=True)
class Storage:
    """One piece of memory, from the tick at which it was first seen to that after which it was gone."""

    number: int
    bytes: int
    born: int
    kind: Kind
    made: bool
    """Made by a recorded operation; else it was there before."""
    stack: Stack = ()
    module: str | None = None
    operation: str = ""
    died: int | None = None
    last_use: int = 0
    name: str | None = None
    """Module path of a parameter or buffer."""


@dataclass(slots=True)
class ModuleCall:
    """One run of a module's ``forward``."""

    number: int
    path: str
    """From the module that was called first; empty for that one itself."""
    kind: str
    """The name of its class."""
    tree: int
    """Which first module it belongs to, in the order of their calls."""
    parent: int | None
    begin: int
    """The tick before its first operation."""
    end: int | None = None
    stack: Stack = ()
    again: bool = False
    """During backward: a checkpoint computes it again."""

    @property
    def label(self) -> str:
        return f"{self.path} ({self.kind})" if self.path else self.kind


@dataclass(slots=True)
class PackedSave:
    """One call of the pack hook."""

    storage: int
    tick: int
    stack: Stack
    module: str | None
    call: int | None
    """The module call that made it."""
    shape: tuple[int, ...]
    dtype: str
    sequence: int
    released: int | None = None
    needed: int | None = None
    node: str | None = None
    role: str | None = None
    edges: tuple[bool, ...] | None = None


@dataclass(slots=True)
class Operation:
    """One dispatched operation."""

    tick: int
    name: str
    """Without namespace and overload: ``add``."""
    overload: str
    stack: Stack
    module: str | None
    call: int | None
    backward: bool
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    makes: tuple[int, ...]
    operands: tuple[Operand, ...] = ()
    output: Operand | None = None
    alpha_is_one: bool = True
    function: str | None = None
    """The torch function whose result this operation's is, as the program called it."""
    asked: bool = True
    """Whether the program's call asked for in-place; else a write is the library's own affair."""
    outer: int | None = None
    """The torch function that the program called, in ``Trace.functions``."""
    kernel: Any = None
    """What computes it, of forward alone."""
    arguments: Any = None
    """Its arguments with an `Operand` for each tensor, of forward alone."""
    results: tuple[Operand, ...] = ()


@dataclass(slots=True)
class FunctionCall:
    """One outermost call of a torch function."""

    name: str
    tensors: tuple[Value, ...]
    """Of its arguments, in their order."""
    result: int | None = None
    """The storage of what it returned, where that is one tensor."""


Value = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""A tensor told from others on the same storage: storage, offset, shape and strides."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a call, as far as a change to in-place asks."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    bytes: int
    whole: bool
    """It is all of its storage."""
    leaf: bool
    """A leaf that needs a gradient: torch allows no write to it."""
    requires_grad: bool
    offset: int = 0
    device: str = "cpu"
    """The device's type."""

    @property
    def value(self) -> Value:
        return self.storage, self.offset, self.shape, self.strides


@dataclass(slots=True)
class Trace:
    """One recording."""

    storages: list[Storage] = field(default_factory=list)
    saves: list[PackedSave] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    calls: list[ModuleCall] = field(default_factory=list)
    functions: list[FunctionCall] = field(default_factory=list)
    tick: int = 0
    began: int = 0
    """First tick of the recorded step."""
    forward_began: int | None = None
    """The tick before the step's first operation of a module, or on what needs a gradient."""
    backward_began: int | None = None
    backwards: int = 0
    ended_early: str | None = None
    origin: dict[int, tuple[Stack, str | None]] = field(default_factory=dict)
    """By a backward node's sequence number: where its forward operation ran, and in which module."""
    results: list[Any] = field(default_factory=list)
    """Where asked for: the values that backward began from, then the gradients of the leaves."""
    roots: int = 0
    """How many of the results are values that backward began from."""
    buffers: list[Any] = field(default_factory=list)
    """Where asked for: the buffers of the modules at the end."""
    names: list[HeldName] = field(default_factory=list)
    """Where asked for: what the program's variables hold when the recorded backward begins."""

    @property
    def start(self) -> int:
        """The tick before the first one of forward; all before it made the model and its data."""
        return self.began if self.forward_began is None else max(self.began, self.forward_began)
