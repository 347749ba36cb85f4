"""Who owns a tensor: ``generator.fc.weight``, ``trunk.2 (Dropout)``, or a plain variable.

Runs only for a report. Modules are found among the objects that the garbage collector knows, and the
way to a module from the user's variables. Those objects are other people's: a weak proxy runs code
when asked for ``__class__``, a lazy module's attributes raise. So types are asked with ``type(o)``,
contents read from ``__dict__`` directly, and whatever is odd is passed over. No reference outlives a
call, and frames are left as they were.
"""

from __future__ import annotations

import gc
import itertools
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch

from ..parsing import SharedLock
from ..torch_internals import compat
from .sites import is_library

_DEEPEST = 3
"""Steps from a variable to a module: ``agents["a"].critic`` is two."""
_MOST = 20_000
"""Objects looked at on the way; a bigger world has no short names anyway."""

_WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module"})
"""Children under which a wrapper (data parallel, compile) keeps the user's module."""

_REGISTRIES = frozenset({"_modules", "_parameters", "_buffers"})
"""What a module registers is reached by its path, not through these."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a `class` statement
_OPTIMIZED = 0x1  # CO_OPTIMIZED: locals live in slots, and f_locals is a copy


class _MemoryPlace(NamedTuple):
    """A tensor's memory: of which storage, and where in it."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def owner_name(tensor: torch.Tensor, frames: Sequence[FrameType] | None = None) -> str | None:
    """The module path of the parameter or buffer that ``tensor`` is, or is a view of.

    The path begins with a variable that holds the outermost module (``generator.fc.weight``), found
    in the frames' locals, their globals and those of ``__main__``, up to three steps deep
    (``agent.q1.fc2.weight``, ``models['trunk'].net.0.weight``); names other than ``self`` are
    preferred, then short ways. A module that no variable leads to is called by its class:
    ``Critic.head.weight``. Of tied parameters the one with the simplest path is named.

    Args:
        tensor: The parameter, a ``detach()`` or another view of it.
        frames: The user's live frames, innermost first; the current stack's if None.
    Returns:
        None where no live module owns the memory, or where several distinct parameters share it and
        none has the tensor's very place in it.
    """
    place = _place(tensor)
    if place is None:
        return None
    modules = _live_modules()
    try:
        owned = _owners(place, modules)
        return _best(_paths(owned, modules, frames))
    finally:
        modules.clear()


def gradient_owner(
    tensor: torch.Tensor, frames: Sequence[FrameType] | None = None
) -> tuple[str, bool] | None:
    """The parameter whose ``.grad`` lies in this very memory, and whether that is a bucket's.

    A bucket is the memory of DistributedDataParallel's own in which it adds up gradients; with
    ``gradient_as_bucket_view=True`` the gradients are views of it.

    Returns:
        None where it is no live parameter's gradient.
    """
    place = _place(tensor)
    if place is None:
        return None
    modules = _live_modules()
    try:
        owned = [
            (module, name)
            for module in modules.values()
            for name, own in _tensors(module)
            if not compat.has_history(own) and own.grad is not None and _place(own.grad) == place
        ]
        path = _best(_paths(owned, modules, frames))
        if path is None:
            return None
        parallel = [m for m in modules.values() if _contents(m).get("gradient_as_bucket_view") is True]
        within = {id(module) for one in parallel for module in one.modules()}
        return path, any(id(module) in within for module, _ in owned)
    finally:
        modules.clear()


def variable_name(tensor: torch.Tensor, frames: Sequence[FrameType] | None = None) -> str | None:
    """The one local variable of the given frames that is this tensor, or the same view of its memory.

    Args:
        tensor: Any tensor.
        frames: The user's live frames, innermost first; the current stack's if None.
    Returns:
        None where no variable is it, or variables of different names are.
    """
    place = _place(tensor)
    if place is None:
        return None
    for frame in _frames(frames):
        variables = variables_of(frame)
        found = {name for name, value in variables.items() if _is_tensor(value) and _place(value) == place}
        variables.clear()
        found -= {name for name in found if name.startswith("_")}
        if len(found) == 1:
            return found.pop()
        if found:
            return None
    return None


def module_label(module: torch.nn.Module, frames: Sequence[FrameType] | None = None) -> str:
    """What to call a module: its path and class, ``trunk.2 (Dropout)``; the class alone without a path."""
    kind = type(module).__name__
    modules = _live_modules()
    try:
        path = _best(_paths([(module, "")], modules, frames))
    finally:
        modules.clear()
    return kind if path is None or path == kind else f"{path} ({kind})"


def object_name(wanted: object, frames: Sequence[FrameType] | None = None) -> str | None:
    """The variable, or a short way from one, that leads to an object such as an optimizer."""
    return _search([wanted], frames).get(id(wanted))


# --- modules -----------------------------------------------------------------------------------
class _Settled(NamedTuple):
    """The modules of the collector's oldest generation, as long as nothing joins it."""

    collections: tuple[int, int]
    modules: tuple[weakref.ref[torch.nn.Module], ...]


_looking = SharedLock()
_settled: list[_Settled] = []
"""The last look at the oldest generation: it holds nearly all objects, so a look takes about 0.1 s."""


def _live_modules() -> dict[int, torch.nn.Module]:
    """Every module of the process.

    The collector's list of all objects holds tuples that other threads are still filling, and
    ``tuple(generator)`` ends in a SystemError if someone else holds its tuple. So the list is taken,
    sifted and dropped inside one call into C, which no thread can interrupt.
    """
    with _looking:  # one thread's end of it would switch the collector on for another
        collecting = gc.isenabled()
        gc.disable()  # a collection would run finalizers in between, and change the lists
        try:
            classes = _module_classes()
            found = [module for generation in (0, 1) for module in _sifted(generation, classes)]
            found += _oldest(classes)
        finally:
            if collecting:
                gc.enable()
    return {id(module): module for module in found if type(module) in classes}


def _oldest(classes: set[type]) -> list[torch.nn.Module]:
    """The modules in the oldest generation, looked for only where something may have joined it.

    That is what a collection of the one before it or of all does; from Python 3.14 on, which collects by and
    by, every collection. What ``gc.unfreeze`` brings back is found after the next one: to ask how much is
    frozen takes as long as a look.
    """
    _, younger, all_of_them = (each["collections"] for each in gc.get_stats())
    now = younger, all_of_them
    if sys.version_info < (3, 14) and _settled and _settled[0].collections == now:
        return [module for kept in _settled[0].modules if (module := kept()) is not None]
    found = _sifted(2, classes)
    _settled[:] = [_Settled(now, tuple(map(weakref.ref, found)))]
    return found


def _sifted(generation: int, classes: set[type]) -> list[Any]:
    """The collector's objects of ``classes`` in one of its generations.

    ``compress`` asks for the list twice, for the objects and for their types. Both must come to their
    end: the lists hold these very iterators, and such a circle would stay until the next collection.
    The second list has a few objects more, those that reading the first one made, so that one is
    filled up; where the program collects in between, it has fewer, so what is left of both is read, too.
    Types are compared as they are: ``isinstance`` would run a proxied object's code.
    """

    def listed() -> Iterator[Any]:
        return itertools.chain.from_iterable(map(gc.get_objects, (generation,)))

    objects = itertools.chain(listed(), itertools.repeat(None, 64))
    again = listed()
    found = list(itertools.compress(objects, map(classes.__contains__, map(type, again))))
    for rest in (objects, again):
        deque(rest, maxlen=0)
    return found


def _module_classes() -> set[type]:
    classes: set[type] = set()
    rest: list[type] = [torch.nn.Module]
    while rest:
        classes.update(rest)
        nearest: Iterator[type] = itertools.chain.from_iterable(map(type.__subclasses__, rest))
        rest = [each for each in nearest if each not in classes]
    return classes


def _owners(place: _MemoryPlace, modules: Mapping[int, torch.nn.Module]) -> list[tuple[torch.nn.Module, str]]:
    """Pairs of module and attribute whose tensor lies at ``place``."""
    exact: list[tuple[torch.nn.Module, str]] = []
    sharing: list[tuple[torch.nn.Module, str]] = []
    distinct: set[_MemoryPlace] = set()
    for module in modules.values():
        for name, tensor in _tensors(module):
            there = _place(tensor)
            if there is None or there.storage != place.storage:
                continue
            distinct.add(there)
            sharing.append((module, name))
            if there == place:
                exact.append((module, name))
    if exact:
        return exact
    # A transposed or sliced view: whose it is, is certain only if the storage has one owner.
    return sharing if len(distinct) == 1 else []


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    contents = _contents(module)
    for registry in ("_parameters", "_buffers"):
        entries = contents.get(registry)
        if isinstance(entries, dict):
            for name, tensor in list(entries.items()):
                if isinstance(name, str) and _is_tensor(tensor):
                    yield name, tensor


def _children(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    entries = _contents(module).get("_modules")
    if isinstance(entries, dict):
        for name, child in list(entries.items()):
            if isinstance(name, str) and child is not None:
                yield name, child


class _Path(NamedTuple):
    """One way to say where something is."""

    start: str | None
    """What the user calls the outermost module of this way; None: nothing leads to it."""
    root: str
    """Its class."""
    steps: tuple[str, ...]

    @property
    def text(self) -> str:
        return ".".join([self.start or self.root, *self.steps])

    @property
    def rank(self) -> tuple[bool, int, bool, int, int, str]:
        """Lower is better: a variable of the user's, the outermost module, not ``self``, short.

        The outermost because `m` in ``for m in model.modules()`` stays bound to some layer.
        """
        depth = sum(step not in _WRAPPERS for step in self.steps)
        text = self.text
        first = text.partition(".")[0].partition("[")[0]
        return self.start is None, -depth, first == "self", text.count("[") + text.count("."), len(text), text


def _best(paths: Iterable[_Path]) -> str | None:
    best = min(paths, key=lambda path: path.rank, default=None)
    return None if best is None else best.text


def _paths(
    wanted: Sequence[tuple[torch.nn.Module, str]],
    modules: Mapping[int, torch.nn.Module],
    frames: Sequence[FrameType] | None,
) -> Iterator[_Path]:
    """Every way to each wanted module, ended by the name that came with it."""
    if not wanted:
        return
    parents: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    for module in modules.values():
        for name, child in _children(module):
            parents.setdefault(id(child), []).append((module, name))
    ways = [
        (root, (*steps, *filter(None, [name])))
        for module, name in wanted
        for root, steps in _ways_up(module, parents)
    ]
    names = _search([root for root, _ in ways], frames)
    for root, steps in ways:
        yield _Path(names.get(id(root)), type(root).__name__, steps)


def _ways_up(
    module: torch.nn.Module, parents: Mapping[int, list[tuple[torch.nn.Module, str]]]
) -> Iterator[tuple[torch.nn.Module, tuple[str, ...]]]:
    """Every module that contains ``module`` (itself first), each with the path down from it."""
    seen = {id(module)}
    todo: list[tuple[torch.nn.Module, tuple[str, ...]]] = [(module, ())]
    for current, path in todo:
        yield current, path
        for parent, name in parents.get(id(current), ()):
            if id(parent) not in seen:
                seen.add(id(parent))
                todo.append((parent, (name, *path)))


# --- variables ---------------------------------------------------------------------------------
def _reachable(frames: Sequence[FrameType] | None, deepest: int) -> Iterator[tuple[str, Any]]:
    """What variables lead to, as the program would write it: scope by scope, by the fewest steps first."""
    looked_at = 0
    for starts in _scopes(frames):
        seen: set[int] = set()
        level: list[tuple[str, Any]] = list(starts.items())
        starts.clear()
        for depth in range(deepest + 1):
            following: list[tuple[str, Any]] = []
            for name, value in level:
                looked_at += 1
                yield name, value
                if depth < deepest and looked_at < _MOST and id(value) not in seen:
                    seen.add(id(value))
                    following.extend(_parts(name, value))
            level = following


def _search(wanted: Sequence[object], frames: Sequence[FrameType] | None) -> dict[int, str]:
    """The best name that leads to each wanted object, by id; those that nothing leads to are left out."""
    ids = {id(one) for one in wanted}
    found: dict[int, str] = {}
    for name, value in _reachable(frames, _DEEPEST):
        if id(value) in ids:
            best = found.get(id(value))
            if best is None or _Path(name, "", ()).rank < _Path(best, "", ()).rank:
                found[id(value)] = name
    return found


def named_tensors(deepest: int = 5) -> list[tuple[str, torch.Tensor]]:
    """Every tensor that a variable of the running program leads to, with how the program would write it.

    Args:
        deepest: Steps from a variable: ``out.past_key_values.layers[0].keys`` is four.
    Returns:
        Each tensor once, under the first name found: of the innermost function, by the fewest steps; that of
        a list or an object goes before a variable of its own, which is soon another's.
    """
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for name, value in _reachable(None, deepest):
        if _is_tensor(value):
            known = found.get(id(value))
            if known is None or (known[0].isidentifier() and not name.isidentifier()):
                found[id(value)] = name, value
    return list(found.values())


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What can be reached in one step, as the user would write the step."""
    kind = type(value)
    if kind is dict:
        for key, inner in list(value.items())[:200]:
            if type(key) in (str, int):
                yield f"{name}[{key!r}]", inner
    elif kind in (list, tuple):
        for index, inner in enumerate(value[:200]):
            yield f"{name}[{index}]", inner
    elif _holds_things(kind):
        for key, inner in list(_contents(value).items())[:200]:
            if type(key) is str and key.isidentifier() and key not in _REGISTRIES and key[:2] != "__":
                yield f"{name}.{key}", inner


def _holds_things(kind: type) -> bool:
    """Whether to look inside objects of this class: the user's own, and modules for what they hide."""
    # Most values are numbers and strings.
    if kind.__flags__ & _HEAP_TYPE == 0:
        return False
    return not issubclass(kind, (torch.Tensor, type, types.ModuleType, types.FunctionType))


def _contents(value: object) -> dict[str, Any]:
    """The instance's own ``__dict__``, without running any code of its class."""
    try:
        contents = object.__getattribute__(value, "__dict__")
    except Exception:
        return {}
    return contents if type(contents) is dict else {}


def _frames(frames: Sequence[FrameType] | None) -> list[FrameType]:
    if frames is not None:
        return list(frames)
    out: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code):
            out.append(frame)
        frame = frame.f_back
    return out


def _scopes(frames: Sequence[FrameType] | None) -> Iterator[dict[str, Any]]:
    """Variables of the frames, innermost first, then their globals and those of ``__main__``."""
    every = _frames(frames)
    for frame in every:
        if frame.f_code.co_flags & _OPTIMIZED:
            yield variables_of(frame)
    done: set[int] = set()
    main = sys.modules.get("__main__")
    for scope in [*(frame.f_globals for frame in every), getattr(main, "__dict__", {})]:
        if id(scope) not in done:
            done.add(id(scope))
            yield _plain(scope)
    every.clear()


def variables_of(frame: FrameType) -> dict[str, Any]:
    """A copy of the frame's variables that leaves nothing in the frame."""
    if not frame.f_code.co_flags & _OPTIMIZED:
        return _plain(frame.f_locals)
    local = frame.f_locals
    found = _plain(local)
    # Before Python 3.13 asking for `f_locals` leaves a copy in the frame, which would keep the tensors
    # alive that the function deletes. Two references (the frame's, ours) and the call's own mean that the
    # program doesn't hold it by calling `locals()`.
    if type(local) is dict and sys.getrefcount(local) <= 3:
        local.clear()
    return found


def _plain(scope: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in dict(scope).items() if isinstance(name, str) and name.isidentifier()
    }


# --- tensors -----------------------------------------------------------------------------------
def _is_tensor(value: object) -> bool:
    try:
        return issubclass(type(value), torch.Tensor)
    except Exception:
        return False


def _place(tensor: torch.Tensor) -> _MemoryPlace | None:
    """Where the tensor lies; None for those without memory of their own (sparse, lazy, wrappers)."""
    try:
        if not compat.is_plain(tensor):
            return None
        return _MemoryPlace(
            compat.storage_key(tensor),
            int(tensor.storage_offset()),
            tuple(tensor.shape),
            tuple(tensor.stride()),
        )
    # A lazy parameter raises ValueError, a freed or functional one RuntimeError; others what they like.
    except Exception:
        return None
