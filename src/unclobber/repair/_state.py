"""The state of a program as a table of plain values and tensors that can be kept and compared.

Each object is one row, however many paths lead to it. Rows refer to their parts by row numbers, so that
cycles and depth do no harm. Two tables are compared from their roots along equal labels.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..torch_internals import compat
from ..torch_internals.agreement import compared
from ._job import Against, Different

_MOST_ROWS = 300_000
_MOST_BYTES = 2**30  # limit of copied tensors, in bytes; further ones are left out on both sides
_MOST_KEPT = 512 * 2**20
"""Limit of parameters and buffers that are kept alive, in bytes; modules beyond it are not kept."""
AS_WRITTEN = "_unclobber_as_written"  # attribute with the value that a parameter was meant to get
_IDENTITY = 2**32  # size from which integers count as `id()`s, which no two runs share


@dataclass
class Row:
    """An object of the program."""

    kind: str
    value: Any = None  # a plain value, or a copy of the tensor
    records: bool = False  # whether a tensor requires grad
    parts: dict[str, int] = field(default_factory=dict)
    as_written: torch.Tensor | None = None  # of a parameter, the value of a new tensor in its place


@dataclass
class State:
    """The table of one program's state."""

    rows: list[Row]
    roots: dict[str, int]  # rows of `__main__` and the program's other modules, by name
    others: list[int]  # rows of modules, optimizers and schedulers that no root leads to


_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, range, slice,
    enum.Enum,
)  # fmt: skip
_CODE = (types.FunctionType, types.MethodType, functools.partial, types.GeneratorType)
_CLOSED = frozenset({"torch", "collections", "types", "functools", "argparse"})
"""Libraries whose objects are followed; of others modules and optimizers are, else only the class counts."""
_OPEN = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)


class Living:
    """Collector of modules, optimizers and schedulers, which keeps them alive to the run's end."""

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}
        self._bytes = 0

    def look(self, nth: int) -> None:  # after the 1st, 2nd, 4th, 8th …, because a search takes time
        if nth & (nth - 1) == 0:
            self._take()

    def objects(self) -> list[Any]:
        self._take()
        return list(self._kept.values())

    def _take(self) -> None:
        """Keep the modules, optimizers and schedulers that the collector knows, up to the limit of bytes."""
        for candidate in gc.get_objects():
            # `type`, because a class may lie about itself and a proxy runs code when its `__class__` is read
            if issubclass(type(candidate), _OPEN) and id(candidate) not in self._kept:
                of = [vars(candidate).get(name, {}) for name in ("_parameters", "_buffers")]
                tensors = (t for own in of for t in own.values() if isinstance(t, torch.Tensor))
                self._bytes += sum(t.nbytes for t in tensors if t.layout is torch.strided)
                if self._bytes > _MOST_KEPT:
                    return
                self._kept[id(candidate)] = candidate


class Walk:
    """Builder of a table, which follows the objects of modules with certain first names."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own | {"__main__"}
        self._rows: list[Row] = []
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []
        self._todo: deque[tuple[Row, Any]] = deque()
        self._bytes = 0

    def walk(self, modules: Mapping[str, Mapping[str, Any]], others: Iterable[Any]) -> State:
        """Return the table of all objects that the names of some modules lead to, then of further objects."""
        roots = {name: self._row(dict(names)) for name, names in modules.items()}
        self._finish()
        reached = len(self._rows)
        numbers = [self._row(thing) for thing in others]
        self._finish()
        inner = {part for row in self._rows[reached:] for part in row.parts.values()}
        new = [number for number in numbers if number >= reached]
        return State(self._rows, roots, [number for number in new if number not in inner] or new)

    def _row(self, thing: Any) -> int:
        """Return the row number of an object; a new row is filled later."""
        known = self._known.get(id(thing))
        if known is not None:
            return known
        number = len(self._rows)
        self._known[id(thing)] = number
        self._alive.append(thing)  # keep it alive, or its id would be reused
        kind = type(thing)
        row = Row(f"{kind.__module__}.{kind.__qualname__}")
        self._rows.append(row)
        self._todo.append((row, thing))
        return number

    def _finish(self) -> None:
        """Fill the waiting rows, up to the limit of rows."""
        with compat.dispatcher.unseen_by_torch():
            while self._todo and len(self._rows) < _MOST_ROWS:
                row, thing = self._todo.popleft()
                if issubclass(type(thing), torch.Tensor):
                    self._tensor(row, thing)
                elif issubclass(type(thing), _PLAIN):
                    row.value = thing if type(thing) in _PLAIN[:7] else repr(thing)
                else:
                    row.parts = {label: self._row(part) for label, part in self._parts(row, thing)}

    def _tensor(self, row: Row, tensor: torch.Tensor) -> None:
        """Fill the row of a tensor: a copy of its values, and the gradient of a leaf."""
        # a fix may replace a parameter by a tensor of the same value (tests/unit/repair/test_state.py)
        row.kind, row.records = "tensor", tensor.requires_grad
        is_lazy = torch.nn.parameter.is_lazy(tensor)
        if is_lazy or tensor.is_nested or tensor.is_meta or compat.tensors.is_functorch_wrapper(tensor):
            return
        self._bytes += tensor.nbytes if tensor.layout is torch.strided else 0
        if self._bytes <= _MOST_BYTES:
            row.value = tensor.detach().to("cpu", copy=True)
            if (written := getattr(tensor, AS_WRITTEN, None)) is not None:
                row.as_written = written.detach().to("cpu", copy=True)
        if not compat.graph.has_history(tensor) and tensor.grad is not None:
            row.parts["grad"] = self._row(tensor.grad)

    def _parts(self, row: Row, thing: Any) -> Iterable[tuple[str, Any]]:
        """Return an object's parts by labels; of an object without parts, record the value in its row."""
        kind = type(thing)
        if isinstance(thing, Mapping) and issubclass(kind, dict):
            items = enumerate(list(thing.items()))
            return ((f"[{k!r}]" if issubclass(type(k), _PLAIN) else f"[#{n}]", v) for n, (k, v) in items)
        if issubclass(kind, (list, tuple, deque)):
            return [(f"[{number}]", value) for number, value in enumerate(list(thing))]
        if issubclass(kind, (set, frozenset)):
            # A set has no order in which its items could be labelled.
            plain = [repr(item) for item in thing if issubclass(type(item), _PLAIN)]
            row.value = f"{len(thing)} of {sorted(plain)}"
            return ()
        if kind is torch.Generator:
            row.value = repr(thing.get_state().tolist())
            return ()
        if (numpy := sys.modules.get("numpy")) is not None and issubclass(kind, numpy.ndarray):
            try:
                return [("", torch.from_numpy(thing.copy()))]
            except (TypeError, ValueError):  # of `longdouble`, of objects, of another byte order
                row.value = repr(thing)
                return ()
        if any(kind is code for code in _CODE) or issubclass(kind, type):
            return self._parts_of_code(thing)
        top = str(kind.__module__).partition(".")[0]
        is_open = self._is_own(kind.__module__) or issubclass(kind, _OPEN) or top in _CLOSED
        return self._attributes(thing) if is_open else ()

    def _parts_of_code(self, thing: Any) -> Iterable[tuple[str, Any]]:
        """Return the parts of a function, a class or a running generator, if it is the program's."""
        kind = type(thing)
        if kind is types.FunctionType:
            return self._function(thing) if self._is_own(thing.__module__) else ()
        if kind is types.MethodType:
            return [(".__self__", thing.__self__)]
        if kind is functools.partial:
            return [(".func", thing.func), (".args", thing.args), (".keywords", thing.keywords)]
        if kind is types.GeneratorType:
            if thing.gi_frame is None or not self._is_own(thing.gi_frame.f_globals.get("__name__")):
                return ()
            return [(f".{name}", value) for name, value in dict(thing.gi_frame.f_locals).items()]
        own = dict(vars(thing)) if self._is_own(thing.__module__) else {}
        return [(f".{name}", value) for name, value in own.items() if name[:2] != "__"]

    def _function(self, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        """Yield the closure's variables, the defaults and the attributes of a function."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # not bound yet
                yield f".{name}", cell.cell_contents
        yield from ((f".__defaults__[{n}]", value) for n, value in enumerate(function.__defaults__ or ()))
        yield from ((f".{name}", value) for name, value in (function.__kwdefaults__ or {}).items())
        yield from ((f".{name}", value) for name, value in vars(function).items())

    def _attributes(self, thing: Any) -> Iterator[tuple[str, Any]]:
        """Yield the attributes and slots of an object, without running its code."""
        names: dict[Any, Any] = {}
        with contextlib.suppress(AttributeError):
            names |= object.__getattribute__(thing, "__dict__")
        for kind in type(thing).__mro__:
            slots = vars(kind).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                with contextlib.suppress(AttributeError):
                    names.setdefault(name, object.__getattribute__(thing, name))
        yield from ((f".{name}", value) for name, value in names.items() if isinstance(name, str))

    def _is_own(self, module: Any) -> bool:
        return isinstance(module, str) and module.partition(".")[0] in self._own


# --- comparing -------------------------------------------------------------------------------------


def differences(reference: State, other: State, against: Against) -> list[Different]:
    """Return the differences of another run's state from the reference's."""
    # The program's end reads no gradients that leaves are left with.
    if against.moves:
        reference, other = _without_gradients(reference), _without_gradients(other)
    comparison = _StateComparison(reference.rows, other.rows, against)
    different: list[Different] = []
    for module, row in reference.roots.items():
        if module not in other.roots:
            continue  # only one side has loaded this module
        mine, theirs = reference.rows[row].parts, other.rows[other.roots[module]].parts
        for label, part in mine.items():
            name = label[2:-2]
            if name in against.never_read_again or name.startswith("__"):
                continue
            if label not in theirs:
                is_plain = reference.rows[part].kind != "tensor"
                different.append(_different(name, "is gone", plain=is_plain))
            else:
                different += comparison.of(part, theirs[label], name)
    left = list(other.others)
    for row in reference.others:
        kind = reference.rows[row].kind
        trials = [(number, comparison.trial(row, number, kind.rpartition(".")[2])) for number in left
                  if other.rows[number].kind == kind]  # fmt: skip
        good = next((number for number, unlike in trials if not unlike), None)
        if good is not None:
            left.remove(good)
        elif trials:
            different += trials[0][1]
    return different


def _without_gradients(state: State) -> State:
    rows = [replace(row, parts={}) if row.kind == "tensor" else row for row in state.rows]
    return replace(state, rows=rows)


def _different(where: str, how: str, *, plain: bool) -> Different:
    return Different(where, f"`{where}` {how}", plain)


class _StateComparison:
    """The comparison of two tables, which compares no pair of rows twice."""

    def __init__(self, mine: list[Row], theirs: list[Row], against: Against) -> None:
        self._mine = mine
        self._theirs = theirs
        self._against = against
        self._compared_rows: set[tuple[int, int]] = set()

    def trial(self, mine: int, other: int, name: str) -> list[Different]:
        """Return the differences of two rows. If there are any, all rows that they lead to count as new."""
        before = set(self._compared_rows)
        if different := [*self.of(mine, other, name)]:
            self._compared_rows = before
        return different

    def of(self, mine: int, other: int, name: str) -> Iterator[Different]:
        """Yield the differences of two rows and of all rows that they lead to."""
        # A queue and no recursion, because linked objects can be deeper than Python's stack.
        todo = deque([(mine, other, name)])
        while todo:
            mine, other, name = todo.popleft()
            if (mine, other) in self._compared_rows:
                continue
            self._compared_rows.add((mine, other))
            a, b = self._mine[mine], self._theirs[other]
            new = a.as_written if b.kind == "tensor" else None
            if new is not None and b.value is not None and compared(new, b.value).is_rounding:
                continue
            problem = self._problem(a, b)
            if problem:
                yield _different(name, problem, plain="tensor" not in (a.kind, b.kind))
                continue
            sequence = a.kind in ("builtins.list", "builtins.tuple", "collections.deque")
            if sequence and len(a.parts) != len(b.parts):
                yield _different(name, f"has {len(b.parts)} elements instead of {len(a.parts)}", plain=True)
            for label, part in a.parts.items():
                if label == ".inplace" and a.kind.startswith("torch.nn."):
                    # A fix may change how a module works; its results are compared
                    # (tests/unit/repair/test_state.py).
                    continue
                if label in b.parts:
                    todo.append((part, b.parts[label], f"{name}{label}"))
                # a fix may remove a decorator (tests/unit/repair/test_state.py)
                elif not sequence and a.kind != "builtins.function":
                    yield _different(f"{name}{label}", "is gone", plain=self._mine[part].kind != "tensor")

    def _problem(self, a: Row, b: Row) -> str:
        """Return the difference of two rows, in words; empty if they agree."""
        if a.kind != b.kind:
            return f"is a {b.kind} instead of a {a.kind}"
        if a.kind == "tensor":
            if (a.value is None) != (b.value is None):
                return ""
            if a.value is not None and a.value.dtype != b.value.dtype:
                return f"is {str(b.value.dtype)[6:]} instead of {str(a.value.dtype)[6:]}"
            if a.value is not None and not compared(a.value, b.value).is_rounding:
                return "has another value"
            if a.records != b.records and not (self._against.detaches and a.records):
                return "requires grad" if b.records else "does not require grad any more"
            return ""
        if isinstance(a.value, int) and isinstance(b.value, int):
            large = abs(a.value) >= _IDENTITY and abs(b.value) >= _IDENTITY
            return "" if large or a.value == b.value else f"is {b.value} instead of {a.value}"
        numbers = isinstance(a.value, (float, complex)) and isinstance(b.value, (float, complex))
        if numbers and not self._against.exactly:
            values = (torch.tensor(each.value).float() for each in (a, b))
            return "" if compared(*values).is_rounding else f"is {b.value} instead of {a.value}"
        if repr(a.value) == repr(b.value):
            return ""
        return f"is {b.value} instead of {a.value}" if numbers else "has another value"
