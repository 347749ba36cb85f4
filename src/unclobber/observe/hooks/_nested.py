"""Tensors inside of what a custom Function keeps on ``ctx``, and how to exchange one for a while.

Lists, tuples, dicts, sets, deques, named tuples, mapping proxies and the attributes of plain objects,
however deep. None of the program's code is run: no property, no ``__getattr__``, no ``__iter__`` or
``__hash__`` of a class of its own. What a closure, a bound method or a module holds is not looked at.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch

from ...source import contents, is_a
from ...torch_internals import compat

MOST = 1000  # number of values looked at on one `ctx`; further ones are not followed

ATOMS = frozenset(
    {bool, bytes, complex, float, int, str, range, slice, type(None), type(Ellipsis), torch.Size,
     torch.device, torch.dtype, torch.layout, torch.memory_format}
)  # fmt: skip
"""Types in which no tensor can lie."""

_NOT_FOLLOWED = (
    type, types.ModuleType, torch.nn.Module, torch.optim.Optimizer, compat.entries.CONTEXT,
)  # fmt: skip
"""Objects that a program keeps for what they are at the time of backward."""

_SEQUENCES = (tuple, list, deque)
_OURS = __name__.partition(".")[0] + "."
_MISSING = object()
_HEAP_TYPE = 1 << 9  # `Py_TPFLAGS_HEAPTYPE`: made by a `class` statement, so that its methods may be Python


class WayStep(NamedTuple):
    """Step from an owner to a value that it holds."""

    kind: str  # `attribute`, `slot`, `item`, `key`, `member` of a set, or `mapping` behind a proxy
    which: Any


Way = tuple[WayStep, ...]


class Found(NamedTuple):
    """A tensor on a ``ctx``."""

    tensor: torch.Tensor
    attribute: str  # the attribute that leads to it
    path: str  # the expression after `ctx.`: `stuff[1]["y"][0]`
    ways: list[Way]  # every way to it, for tuples that lie at several places are several


def may_hold(value: Any) -> bool:  # a tuple of sizes and flags can't ever
    kind = type(value)
    return kind not in ATOMS and not (
        kind is tuple and len(value) <= MOST and ATOMS.issuperset(map(type, value))
    )


def tensors_of(ctx: Any, names: Iterable[str]) -> list[Found]:
    """Return the tensors in some attributes of ``ctx``, each once, nearest first."""
    own = contents(ctx)
    tensors: dict[int, Found] = {}
    seen: set[int] = {id(ctx)}
    todo: deque[tuple[str, str, Way, Any]] = deque(
        (name, name, (WayStep("attribute", name),), own[name]) for name in names if name in own
    )
    left = MOST
    while todo and left > 0:
        attribute, path, way, value = todo.popleft()
        left -= 1
        if is_a(value, torch.Tensor):
            tensors.setdefault(id(value), Found(value, attribute, path, [])).ways.append(way)
            continue
        if type(value) in (list, tuple) and len(value) <= MOST and ATOMS.issuperset(map(type, value)):
            continue  # sizes and flags, which most Functions keep: no need to look at each
        if not is_a(value, (tuple, frozenset)):  # those are rebuilt, so every way to them counts
            if id(value) in seen:
                continue
            seen.add(id(value))
        for step, suffix, inner in islice(_held(value), max(0, left - len(todo))):
            if type(inner) in ATOMS:
                left -= 1
            else:
                todo.append((attribute, path + suffix, (*way, step), inner))
    return list(tensors.values())


Part = tuple[WayStep, str, Any]  # the step to what a value holds, how that is spelled, and itself


def _held(value: Any) -> Iterator[Part]:
    """Yield each value that a value holds, with the step to it."""
    if is_a(value, _SEQUENCES):
        return _items(value)
    if is_a(value, (set, frozenset)):
        return _tensors_among(value)
    if is_a(value, dict):
        return _values(value)
    if type(value) is types.MappingProxyType:
        behind = _behind(value)
        return iter(() if behind is None else ((WayStep("mapping", None), "", behind),))
    return _attributes(value) if _is_plain_object(value) else iter(())


def _sequence_of(value: Any) -> Any:  # the class of Python's own whose methods read and set its items
    return next(base for base in _SEQUENCES if is_a(value, base))


def _items(value: Any) -> Iterator[Part]:
    sequence = _sequence_of(value)
    fields = vars(type(value)).get("_fields", ()) if sequence is tuple else ()
    for index, item in enumerate(sequence.__iter__(value)):
        named = type(fields) is tuple and index < len(fields)
        yield WayStep("item", index), f".{fields[index]}" if named else f"[{index}]", item


def _tensors_among(value: Any) -> Iterator[Part]:
    # Only torch's own classes, because exchanging a member hashes it, which runs code of a subclass.
    for item in _members(value):
        if type(item) in (torch.Tensor, torch.nn.Parameter):
            yield WayStep("member", id(item)), "", item


def _members(value: Any) -> Iterator[Any]:
    return (set.__iter__ if is_a(value, set) else frozenset.__iter__)(value)


def _values(value: Any) -> Iterator[Part]:
    for key, item in dict.items(value):
        if _is_plain_key(key):
            yield WayStep("key", key), f"[{_spelled(key)}]", item


def _attributes(value: Any) -> Iterator[Part]:
    """Yield the attributes and slots of a plain object, read without code of the program's."""
    for name, item in contents(value).items():
        if type(name) is str:
            yield WayStep("attribute", name), f".{name}", item
    for slot in _slots(type(value)):
        item = _child(value, WayStep("slot", slot))
        if item is not _MISSING:
            yield WayStep("slot", slot), f".{slot.__name__}", item


def _is_plain_object(value: Any) -> bool:
    kind = type(value)
    # A checkpoint's function is an object of this package (`checkpoint._Recomputed`).
    own = str(vars(kind).get("__module__", "")).startswith(_OURS)
    return bool(kind.__flags__ & _HEAP_TYPE) and not own and not is_a(value, _NOT_FOLLOWED)


def _slots(kind: type) -> Iterator[types.MemberDescriptorType]:
    for base in type.__dict__["__mro__"].__get__(kind):
        if "__slots__" in vars(base):
            for member in vars(base).values():
                if type(member) is types.MemberDescriptorType:
                    yield member


def _is_plain_key(key: Any) -> bool:  # looking it up runs no code of the program's
    kind: Any = type(key)
    if kind is tuple:
        return all(map(_is_plain_key, key))
    return not kind.__flags__ & _HEAP_TYPE or kind.__hash__ is object.__hash__


def _spelled(key: Any) -> str:
    if type(key) is str and key.isprintable() and '"' not in key and "\\" not in key:
        return f'"{key}"'
    return repr(key) if type(key) in ATOMS else "…"


def _behind(proxy: Any) -> dict[Any, Any] | None:
    (mapping,) = gc.get_referents(proxy)
    return mapping if is_a(mapping, dict) else None


# --- exchanging ---------------------------------------------------------------------------------


def exchange(ctx: Any, ways: Iterable[Way], old: torch.Tensor, new: torch.Tensor) -> list[Callable[[], None]]:
    """Replace ``old`` by ``new`` at each path on ``ctx``.

    Lists, dicts and objects keep their identity and get another content. Only a tuple or a frozenset, which
    can't be changed, is exchanged for another in its holder.

    Returns:
        Undo callbacks, newest last. They leave what the program itself has exchanged in between.
    """
    undo: list[Callable[[], None]] = []
    for way in ways:
        _replaced(ctx, way, old, new, undo)
    return undo


def _replaced(owner: Any, way: Way, old: Any, new: Any, undo: list[Callable[[], None]]) -> Any:
    """Return the value for the place of ``owner``: itself, unless it can't be changed."""
    step, remaining = way[0], way[1:]
    child = _child(owner, step)
    if child is _MISSING or (not remaining and child is not old):
        return owner
    other = _replaced(child, remaining, old, new, undo) if remaining else new
    if other is child:
        return owner
    if is_a(owner, tuple):
        return _rebuilt(owner, step.which, other)
    if is_a(owner, frozenset):
        members = set(owner)
        members.discard(child)
        return frozenset(members | {other})
    _put(owner, step, other)

    def put_back() -> None:
        now_at = WayStep("member", id(other)) if step.kind == "member" else step
        # The program may have put another value there in `backward`
        # (test_what_backward_puts_on_ctx_stays_there_under_guard).
        if _child(owner, now_at) is other:
            _put(owner, now_at, child)

    undo.append(put_back)
    return owner


def _child(owner: Any, step: WayStep) -> Any:
    """Return the value at one step from ``owner``, or ``_MISSING``."""
    kind, which = step
    if kind == "attribute":
        return contents(owner).get(which, _MISSING)
    if kind == "key":
        return dict.get(owner, which, _MISSING)
    if kind == "mapping":
        return _behind(owner)
    if kind == "slot":
        try:
            return which.__get__(owner, type(owner))
        except AttributeError:  # never set
            return _MISSING
    if kind == "member":
        return next((member for member in _members(owner) if id(member) == which), _MISSING)
    sequence = _sequence_of(owner)
    return sequence.__getitem__(owner, which) if which < sequence.__len__(owner) else _MISSING


def _put(owner: Any, step: WayStep, value: Any) -> None:
    """Set the value at one step from ``owner``."""
    kind, which = step
    if kind == "attribute":
        contents(owner)[which] = value
    elif kind == "key":
        dict.__setitem__(owner, which, value)
    elif kind == "slot":
        which.__set__(owner, value)
    elif kind == "member":
        set.discard(owner, _child(owner, step))
        set.add(owner, value)
    else:
        _sequence_of(owner).__setitem__(owner, which, value)


def _rebuilt(owner: Any, index: int, item: Any) -> Any:  # without calling its class
    items = [item if at == index else other for at, other in enumerate(tuple.__iter__(owner))]
    if not type(owner).__flags__ & _HEAP_TYPE or "n_sequence_fields" in vars(type(owner)):
        return type(owner)(items)  # a tuple, or one of torch.return_types
    made = tuple.__new__(type(owner), items)
    contents(made).update(contents(owner))
    return made
