"""Records that a recorder writes while a program runs: plain, mutable, interpreted later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from ..source import Stack
from ..torch_internals import compat
from . import _places
from ._facts import Kind, LiveBytes
from ._names import HeldName, ModuleName
from ._timeline import LASTING, BytesOverTime, Span, joined, summed

_SORTS = {**dict.fromkeys(LASTING, "lasting"), "gradient": "gradients", "temporary": "temporaries"}
"""Fields of `LiveBytes` that count storages of some kinds; those of other kinds are ``kept`` or ``other``."""

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items of each key, all in their order.

    Example:
        >>> grouped("abcab", str.upper)
        {'A': ['a', 'a'], 'B': ['b', 'b'], 'C': ['c']}
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def modules_of(records: Iterable[Storage | Operation | PackedSave]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record.module for record in records if record.module is not None))


Site = tuple[tuple[object, ...], str]
"""A place in the source and the torch function that is called there: equal in another run of the program."""
SiteCall = tuple[Site, int]  # a call at a site: the first one is 1


@dataclass(slots=True, eq=False)
class Storage:
    """A piece of memory, from the tick at which it was first seen to the one after which it was gone.

    It is equal to no other.
    """

    number: int
    bytes: int
    kind: Kind
    born: int = 0  # tick of the operation that made it; 0 if it was there before
    stack: Stack = ()
    module: str | None = None
    maker: Operation | None = None  # the operation that made it; None if it was there before
    reader: Operation | None = None  # the last operation that read it, those of backward aside
    died: int | None = None
    last_use: int = 0
    name: str | None = None  # module path of a parameter or buffer
    saves: list[PackedSave] = field(default_factory=list)

    @property
    def last_read(self) -> int:
        return 0 if self.reader is None else self.reader.tick


@dataclass(slots=True, eq=False)
class ModuleCall(ModuleName):
    """A run of a module's ``forward``; equal to no other."""

    parent: ModuleCall | None
    begin: int  # the tick before its first operation
    end: int | None = None
    stack: Stack = ()
    again: bool = False  # whether it ran during backward: a checkpoint computes it again


@dataclass(slots=True)
class PackedSave:
    """A call of the pack hook."""

    storage: Storage
    tick: int
    stack: Stack
    call: ModuleCall | None  # the innermost one that runs
    shape: tuple[int, ...]
    dtype: str
    died: int | None = None
    needed: int | None = None
    node: str | None = None
    role: str | None = None
    edges: tuple[bool, ...] | None = None
    function: str | None = None  # the torch function whose call made it: `linear` for `addmm`

    @property
    def module(self) -> str | None:
        return None if self.call is None else self.call.label


@dataclass(slots=True)
class Operation:
    """A dispatched operation."""

    tick: int
    name: str  # name without namespace and overload: `add`
    overload: str
    stack: Stack
    module: str | None
    backward: bool
    reads: tuple[int, ...]
    writes: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    function: str | None = None  # the called torch function whose result is this operation's result
    outer: FunctionCall | None = None  # the torch function that the program called, for forward only
    kernel: Any = None  # the dispatched function, for forward only
    arguments: Any = None  # its arguments with an `Operand` for each tensor, for forward only
    results: tuple[Operand, ...] = ()  # its results that have strided memory, for forward only
    wanted: str | None = None  # size of the memory without room, in words; None for other failures

    @property
    def output(self) -> Operand | None:
        return self.results[0] if len(self.results) == 1 else None

    @property
    def operands(self) -> list[Operand]:
        return [leaf for leaf in compat.compilers.tree_leaves(self.arguments) if isinstance(leaf, Operand)]


@dataclass(eq=False)
class FunctionCall:
    """An outermost call of a torch function; equal to no other."""

    name: str
    in_place: bool  # whether it requests to write its argument; else what it writes is the library's choice
    tensors: tuple[Value, ...]  # the tensors among its arguments, in their order
    begin: int  # the tick before its first operation
    result: int | None = None  # number of its result's storage; None if it returned no single tensor
    operations: list[Operation] = field(default_factory=list)  # those of forward

    @cached_property
    def site(self) -> Site:  # of a call with operations
        return _places.key(self.operations[0].stack), self.name


Value = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Identity of a tensor on its storage: storage, offset, shape and strides."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a call, with the facts that decide on a change."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    bytes: int
    whole: bool  # whether it covers all of its storage
    leaf: bool  # whether it is a leaf that needs a gradient; torch allows no write to it
    requires_grad: bool
    offset: int = 0
    device: str = "cpu"  # the device's type

    @property
    def value(self) -> Value:
        return self.storage, self.offset, self.shape, self.strides


@dataclass
class Trace:
    """A recording. What is cached is read once it has ended."""

    storages: list[Storage] = field(default_factory=list)
    saves: list[PackedSave] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    calls: list[ModuleCall] = field(default_factory=list)
    functions: list[FunctionCall] = field(default_factory=list)
    tick: int = 0
    began: int = 0  # first tick of the recorded step
    forward_began: int | None = None
    """The tick before the step's first operation of a module, or on a tensor that needs a gradient."""
    backward_began: int | None = None
    retained: bool = False  # whether the recorded backward was called with ``retain_graph=True``
    differentiable: bool = False  # whether it was with ``create_graph=True``: another backward follows
    backwards: int = 0
    ended_early: str | None = None
    failed: Operation | None = None
    """The operation that failed, until one runs again: a program may catch the error."""
    origin: dict[int, tuple[Stack, str | None]] = field(default_factory=dict)
    """Line and module of each forward operation, by the sequence number of its backward node."""
    results: list[Any] = field(default_factory=list)
    """Values that backward began from, then the gradients of leaves, if the recorder keeps results."""
    roots: int = 0  # number of the results that backward began from
    buffers: list[Any] = field(default_factory=list)
    """Buffers of the modules at the end, if the recorder keeps results."""
    names: list[HeldName] = field(default_factory=list)
    """Names that hold tensors when the recorded backward begins, if the recorder notes names."""

    @property
    def start(self) -> int:  # what ran earlier made the model and its data
        return self.began if self.forward_began is None else max(self.began, self.forward_began)

    def end(self, life: Storage | PackedSave) -> int:
        return self.tick if life.died is None else life.died

    def span(self, storage: Storage, since: int) -> Span:
        return storage.number, since, self.end(storage), storage.bytes

    @cached_property
    def bytes(self) -> BytesOverTime:
        """The live bytes of the recorded step, tick by tick.

        A storage lives from the operation that made it to the one during which it was freed; memory that
        a kernel takes and gives back inside one operation isn't seen.
        """
        spans: dict[str, list[Span]] = {
            sort: [] for sort in ("kept", "other", "gradients", "temporaries", "lasting")
        }
        for storage in self.storages:
            until, sort = self.end(storage), _SORTS.get(storage.kind, "other")
            spans[sort].append(self.span(storage, storage.born))
            held = self.kept_spans.get(storage.number, ()) if sort == "other" else ()
            for number, since, end, size in held:
                # Moved from "other" to "kept" and not added, because each byte counts once.
                spans["other"].append((number, since, min(end, until), -size))
                spans["kept"].append((number, since, min(end, until), size))
        columns = [summed(lives, self.start, self.tick - self.start + 1) for lives in spans.values()]
        moments = [LiveBytes(at, *amounts) for at, amounts in enumerate(zip(*columns, strict=True))]
        return BytesOverTime(self.start, moments)

    @cached_property
    def kept_spans(self) -> dict[int, list[Span]]:
        """The spans in which at least one save held a storage, by its number."""
        return grouped(joined(map(self._held, self.saves)), lambda span: span[0])

    def _held(self, save: PackedSave) -> Span:
        storage = save.storage
        return storage.number, max(save.tick, storage.born), self.end(save), storage.bytes

    def calls_of_step(self) -> list[ModuleCall]:
        return [c for c in self.calls if not c.again and c.end is not None and c.begin >= self.start]

    def inside(self, call: ModuleCall) -> list[Operation]:
        return self.operations[call.begin : call.end]

    @cached_property
    def forward(self) -> list[Operation]:
        return [op for op in self.operations if not op.backward and op.tick > self.start]

    @cached_property
    def written(self) -> set[int]:
        return {number for operation in self.operations for number in operation.writes}

    @cached_property
    def site_calls(self) -> dict[FunctionCall | None, SiteCall]:
        """The calls with operations, numbered at each site as another run numbers them."""
        counts: Counter[Site] = Counter()
        calls: dict[FunctionCall | None, SiteCall] = {}
        for call in self.functions:
            if call.operations:
                site = call.site
                counts[site] += 1
                calls[call] = (site, counts[site])
        return calls
