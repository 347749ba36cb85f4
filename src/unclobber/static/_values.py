"""Abstract values: the facts about a value that are known without running the program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache, reduce
from typing import Any, Literal, NamedTuple

from ..syntax import Span

Kind = Literal[
    "tensor", "unknown", "plain", "sequence", "module", "object", "function", "class", "optimizer", "library"
]
"""``plain`` is a number, text, array or None; ``object`` of a read class; ``library`` of another package."""

_INTEGERS = re.compile(
    r"(^|_)(ids?|idx|idxs|index|indexes|indices|inds?|masks?|labels?|lengths?|lens?|tokens?|codes|batch_idx|perm|"
    r"order|edge_index|cu_seqlens|rng|seed|timesteps?|position_ids)$",
    re.I,
)


class SourceSpan(NamedTuple):
    """A range in the file; lines are 1-based, columns 0-based and in bytes, as ``ast`` counts them."""

    line: int
    column: int
    end_line: int
    end_column: int
    statement_line: int
    statement_end_line: int
    function: str
    inner: tuple[str, int, int, str] | None = None
    """The path, line, column and function in another file, where a call that is followed comes to."""

    @property
    def part(self) -> Span:
        return Span(self.line, self.end_line, self.column, self.end_column)


class Grad(IntEnum):
    """Whether a value requires grad, as far as the file shows."""

    __hash__ = int.__hash__  # an enumeration's own hashes the name

    NO = 0
    MAYBE = 1
    YES = 2


class Leaf(IntEnum):
    """Whether a value is a leaf that requires grad, or a view of one."""

    NO = 0
    VIEW = 1
    LEAF = 2


class Use(NamedTuple):
    """A computation with the parameters of a module, or with a leaf."""

    owner: str
    clock: int
    span: SourceSpan
    guards: frozenset[tuple[str, bool]] = frozenset()  # conditions that hold there, in their source text
    quiet: int = 0  # the state's `quiet` there: an option may bring it (`ddpg.py` of ILSwiss)


class ViewOrigin(NamedTuple):
    """The origin of a view that must not be written."""

    kind: Literal["several", "function", "expanded", "no_grad", "inference mode", "inference"]
    span: SourceSpan
    sure: bool = True  # whether no operation since may have made a copy, as `reshape` may
    guards: frozenset[tuple[str, bool]] = frozenset()  # the conditions that hold there
    less: int = 0  # steps of confidence that a write to it loses: only an option makes it


class Constant(NamedTuple):
    """A value that is written in the source: a truth value, a number, a text or None."""

    value: bool | int | float | str | None


class Turn(NamedTuple):
    """The number of a loop's turn; the only turn that is followed stands for the first and the last."""

    which: str = "first"  # or ``later``, or ``only``
    start: int | None = 0  # the number of the first turn, if it is known


class Dimension(NamedTuple):
    """A number of a tensor's shape by its place: ``h`` of ``b, h, w = x.shape`` has place 1 of 3."""

    at: int
    of: int


class ModuleData(NamedTuple):
    """A torch module."""

    kind: str  # the class: `Linear`; empty if it is any one of its parts, as an argument chooses
    inplace: bool
    parts: tuple[Value, ...]  # the members of a `Sequential` or `ModuleList`
    span: SourceSpan


class Value(NamedTuple):
    """An abstract value."""

    kind: Kind = "unknown"
    places: frozenset[int] = frozenset()  # the storages that it may have; a single one is certain
    sure: bool = False  # whether it certainly is a tensor
    grad: Grad = Grad.MAYBE
    nodes: int = 0  # bits of the graph's nodes on which it certainly depends
    may: int = 0  # bits of the nodes on which it may depend
    uses: frozenset[Use] = frozenset()
    owners: frozenset[str] = frozenset()  # the modules whose parameters it holds
    leaf: Leaf = Leaf.NO
    origin: ViewOrigin | None = None
    made: SourceSpan | None = None
    integer: bool = False  # whether its elements are integers or truth values
    items: tuple[Value, ...] = ()  # the elements of a sequence
    data: Any = None
    """`Constant`, `ModuleData`, a function, a class, ``tuple``, ``list``, a tuple of a dictionary's keys, or
    the uses of the only argument of an unknown function that has some."""
    name: str = ""  # the variable or attribute that holds it: ``self.encoder``
    given: bool = False  # whether it is an argument of a function that was not called

    @property
    def may_be_tensor(self) -> bool:
        return self.kind in ("tensor", "unknown")

    @property
    def parts(self) -> tuple[Value, ...]:
        return self.items if self.kind == "sequence" else (self,)

    @property
    def turn(self) -> Turn | None:
        return self.data if isinstance(self.data, Turn) else None

    @property
    def leaf_names(self) -> frozenset[str]:  # as owners, if it is a leaf that is no module's parameter
        return frozenset(f"leaf {place}" for place in self.places)

    @property
    def graph(self) -> frozenset[Use]:  # the uses on which it depends if backward runs from it
        return self.data if not self.uses and isinstance(self.data, frozenset) else self.uses

    @staticmethod
    def graph_of(values: Iterable[Value]) -> frozenset[Use] | None:  # of the only one that has some
        graphs = {value.graph for value in values if value.graph}
        return graphs.pop() if len(graphs) == 1 else None

    @staticmethod
    def history_of(values: Iterable[Value]) -> tuple[int, int, frozenset[Use]]:  # the nodes and uses of all
        nodes, may, uses = 0, 0, PLAIN.uses
        for value in values:
            nodes, may = nodes | value.nodes, may | value.may | value.nodes
            uses = uses | value.uses if value.uses else uses
        return nodes, may, uses

    def by_name(self, name: str) -> Value:  # what holds indices, labels or a mask has no gradient
        return self._replace(grad=Grad.NO, integer=True) if _INTEGERS.search(name) else self

    def cut(self) -> Value:
        return self._replace(grad=Grad.NO, nodes=0, may=0, leaf=Leaf.NO, origin=None, uses=frozenset())

    def nested(self) -> tuple[Value, ...]:
        return (self, *self.items, *(inner for item in self.items for inner in item.items))


APART = ("data", "detached")
"""Values of `Value.data` for a tensor that shares memory with another, but not its history."""
PLAIN = Value("plain", grad=Grad.NO)
SHAPE = Value("plain", grad=Grad.NO, data="shape")
TURN = Value("plain", grad=Grad.NO, data=Turn())


@lru_cache(typed=True)
def constant(value: Any) -> Value:
    if value is None or isinstance(value, (bool, int, float, str)):
        return Value("plain", grad=Grad.NO, data=Constant(value))
    return PLAIN


def sequence(items: tuple[Value, ...], data: Any = "list") -> Value:
    return Value("sequence", grad=Grad.NO, items=items, data=data)


def turn_from(start: Sequence[Value]) -> Value:  # the first turn's number, if it is given
    return TURN._replace(data=Turn(start=getattr(start[0].data, "value", None))) if start else TURN


NEVER = 1 << 60  # the time of a use for which no change of the parameters is too early: none was kept
ANY = "*"  # the key of attributes whose names are computed
CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})  # of torch's, which hold others as items


def leaf_of(value: Value, leaf: Leaf, made: SourceSpan) -> Value:
    return value._replace(kind="tensor", sure=True, grad=Grad.YES, leaf=leaf, made=made)


def only_part(base: Value) -> Value | None:
    parts = base.data.parts
    made = {part.data.span if isinstance(part.data, ModuleData) else part.made or part for part in parts}
    if len(made) > 1 and all((ends := _ends(part)) and ends == _ends(parts[0]) for part in parts):
        return renamed_part(base, 0)._replace(made=None)  # any one of its class (`s_agcn.py` of GLA-GCN)
    return renamed_part(base, 0) if len(made) == 1 else None


def _ends(part: Value) -> Any:  # what objects of one class, or chains, have in common; None of an unknown one
    if part.kind != "module":
        return part.data if part.kind == "object" else None
    return [_ends(each) for each in part.data.parts[:1] + part.data.parts[-1:]] or part.data[:2]


def renamed_part(base: Value, at: int) -> Value:
    part: Value = base.data.parts[at]
    return named(part, f"{base.name}.{at}") if base.name else part


def named(value: Value, name: str) -> Value:  # one that was followed from its construction keeps its own name
    if value.kind in ("module", "object") and (not value.name or "@" in value.name):
        return value._replace(name=name)
    return value


_DEFINITE = {"module", "object", "function", "optimizer", "sequence"}


def join(a: Value, b: Value | None) -> Value:
    """Return the facts that hold for either of two values."""
    if b is None or a == b:
        return a
    if a.kind != b.kind and {a.kind, b.kind} & _DEFINITE and "plain" in (a.kind, b.kind):
        return b if a.kind == "plain" else a
    # The other branch makes what one loads (`gan_training.py` of IFT6135HW3).
    if "torch.load" in (a.data, b.data) and {a.kind, b.kind} & {"object", "module"}:
        return b if a.data == "torch.load" else a
    # What stands for an argument that is None: `norm_layer = nn.BatchNorm2d`, as a default would.
    if {a.kind, b.kind} == {"library", "unknown"} and a.given is not b.given:
        return a if a.kind == "library" else b
    return _join_alike(a, b) if a.kind == b.kind and not a.may_be_tensor else _join_tensors(a, b)


def _join_alike(a: Value, b: Value) -> Value:
    """Return the join of two values of one kind, which are no tensors."""
    if a.kind == "sequence":
        if a.data == b.data and len(a.items) == len(b.items):
            return a._replace(items=tuple(map(join, a.items, b.items)))
        if a.data == b.data == "list":
            longer, shorter = (a, b) if len(a.items) > len(b.items) else (b, a)
            start = tuple(map(join, longer.items, shorter.items))
            # One branch may have emptied the list: no history is sure (`ac.py` of Popular-RL-Algorithms).
            more = [i._replace(nodes=0, uses=frozenset()) for i in longer.items[len(start) :]]
            if not start and more and isinstance(more[0].data, ModuleData):
                # Nor does a chain surely write to what it is given (`xception.py` of DANet).
                more[0] = more[0]._replace(data=more[0].data._replace(inplace=False))
            return a._replace(items=(*start, *more))
        if isinstance(a.data, tuple) and isinstance(b.data, tuple):
            either = dict(zip(b.data, b.items, strict=True))
            either |= {key: join(item, either.get(key)) for key, item in zip(a.data, a.items, strict=True)}
            return sequence(tuple(either.values()), tuple(either))
        if a.data == b.data == "tuple":  # of two lengths, only one of which is unpacked (deep hedging)
            return max(a, b, key=lambda each: sum(item.may > 0 for item in each.items))
        return sequence(a.items + tuple(item for item in b.items if item not in a.items), "list")
    if a.kind == "module":
        return _join_modules(a, b)
    if a.kind == "library" and a.data != b.data:  # any one of them: an argument chooses an activation
        return a._replace(data="", items=(*(a.items or [a]), *(b.items or [b])))
    if a.kind == "plain":
        return PLAIN
    return a if a.data == b.data else a._replace(owners=a.owners | b.owners)


def _join_modules(a: Value, b: Value) -> Value:
    """Return the join of two modules: a list of both, or any one of them; chains that differ are unknown."""
    data, other, parts = a.data, b.data, a.data.parts
    either = {a.name, b.name} if a.name and b.name and a.name != b.name else set()
    owners = a.owners | b.owners | either  # the modules that it may be
    if data.kind == other.kind == "ModuleList" and len(parts) == len(other.parts):  # one of two at each place
        parts = tuple(map(join, parts, other.parts))
    elif data.kind == other.kind == "ModuleList":  # one branch may append
        parts = (*parts, *(part for part in other.parts if part not in parts))
    elif data.kind != other.kind:
        parts = tuple(part for each in (a, b) for part in ((each,) if each.data.kind else each.data.parts))
        if not CONTAINERS.isdisjoint(part.data.kind for part in parts):
            return Value(name=a.name or b.name, owners=owners)
        data = data._replace(kind="", inplace=False)
    return a._replace(owners=owners, data=data._replace(parts=parts))


def _join_tensors(a: Value, b: Value) -> Value:
    """Return the join of two values of which at least one may be a tensor."""
    either = "tensor" in (a.kind, b.kind) and not {a.kind, b.kind} & (_DEFINITE | {"class", "library"})
    mixed = "plain" in (a.kind, b.kind)
    return Value(
        "tensor" if either else "unknown",
        a.places | b.places,
        (a.sure or b.sure) if mixed else (a.sure and b.sure),
        a.grad if a.grad == b.grad else Grad((a.grad + b.grad + 1) // 2),
        a.nodes & b.nodes,
        a.may | b.may,
        a.uses | b.uses,
        a.owners | b.owners,
        min(a.leaf, b.leaf),
        a.origin or b.origin,
        a.made if a.made == b.made else None,
        a.integer and b.integer,
        a.items if a.items == b.items else (),
        a.data if a.data == b.data else None,
        a.name if a.name == b.name else "",
        (a.given and b.given) or Constant(None) in (a.data, b.data),  # `is None` decides no branch then
    )


def any_of(values: tuple[Value, ...]) -> Value | None:
    """Return the facts that hold for any one of unlike things, such as a dictionary's values."""
    value = shared(values)
    return value and value._replace(uses=frozenset.intersection(*(each.uses for each in values)))


def shared(values: tuple[Value, ...]) -> Value | None:
    return reduce(lambda joined, value: join(value, joined), values) if values else None
