"""Names in the program's words: ``generator.fc.weight``, ``trunk.2 (Dropout)``, or a plain variable.

Runs only for a report. Modules are found among the garbage collector's objects, and the path to a module from
the user's variables. Any of those objects may be odd: a weak proxy runs code when its ``__class__`` is read,
and a lazy module's attributes raise. So types are compared with ``type(o)``, contents are read from
``__dict__`` directly, and objects that raise are skipped. No reference outlives a call, and frames are left
as they were.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from traceback import walk_stack
from types import FrameType
from typing import Any, NamedTuple

import torch

from ..syntax import SharedLock
from ..torch_internals import compat
from .sites import is_library
from .values import contents, is_a

_DEEPEST = 3  # limit of steps from a variable to a module: `agents["a"].critic` is two
_DEEPEST_TENSOR = 5  # such a limit for a tensor: `out.past_key_values.layers[0].keys` is four
_MOST = 20_000  # limit of visited objects, because a program with more has no short names anyway

_FSDP = "_fsdp_wrapped_module"
_WRAPPERS = frozenset({"module", "_orig_mod", _FSDP, "_forward_module"})
"""Names under which a wrapper (data parallel, compile) keeps the user's module."""

_REGISTRIES = frozenset({"_modules", "_parameters", "_buffers"})
"""Attributes that are skipped, because a module's registered objects are reached by their path."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a `class` statement


class _MemoryPlace(NamedTuple):
    """A tensor's memory extent; offset and strides in elements."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> range:
        steps = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return range(self.offset, self.offset + (0 if 0 in self.shape else steps + 1))


class ProgramNames:
    """Names of tensors, modules and objects in the program's words.

    A path begins with a variable that holds the outermost module (``generator.fc.weight``). It is searched
    in the frames' locals, their globals and those of ``__main__``, up to three steps deep
    (``agent.q1.fc2.weight``, ``models['trunk'].net.0.weight``). Names other than ``self`` are preferred, then
    short paths. A module that no variable leads to is called by its class: ``Critic.head.weight``.

    Args:
        frames: The user's live frames, innermost first; those of the current stack at each query if None.
    """

    def __init__(self, frames: Sequence[FrameType] | None = None) -> None:
        self._frames = frames

    def parameter(self, tensor: torch.Tensor) -> str | None:
        """Return the module path of the parameter or buffer that ``tensor`` is, or is a view of.

        Tied parameters get the simplest of their paths. None if no live module owns the memory, or if several
        distinct parameters share it and none is the smallest that the tensor is within.
        """
        owner = self.owner(tensor)
        return None if owner is None else owner[0]

    def owner(self, tensor: torch.Tensor) -> tuple[str, torch.nn.Module] | None:
        """Return the path of such a parameter, and a module that has it."""
        place = _place(tensor)
        if place is None:
            return None
        modules = _live_modules()
        # Cleared at the end, because a traceback that holds this frame would keep every module alive.
        try:
            owned = _owners(place, modules)
            path = _best_path(owned, modules, self._frames)
            return None if path is None else (path, owned[0][0])
        finally:
            modules.clear()

    def gradient(self, tensor: torch.Tensor) -> tuple[str, bool] | None:
        """Return the parameter whose ``.grad`` has exactly this memory, and whether it may be a view of a
        bucket; None if the memory is no live parameter's gradient.

        DistributedDataParallel adds up gradients in buckets, memory of its own. With
        ``gradient_as_bucket_view=True`` the gradients are views of a bucket.
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
                if not compat.graph.has_history(own) and own.grad is not None and _place(own.grad) == place
            ]
            path = _best_path(owned, modules, self._frames)
            if path is None:
                return None
            parallel = [m for m in modules.values() if contents(m).get("gradient_as_bucket_view") is True]
            within = {id(module) for wrapper in parallel for module in wrapper.modules()}
            return path, any(id(module) in within for module, _ in owned)
        finally:
            modules.clear()

    def variable(self, tensor: torch.Tensor) -> str | None:
        """Return the one local variable that is this tensor, or the same view of its memory.

        The innermost frame with such a variable decides. None if no variable holds it, or if variables of
        different names do.
        """
        place = _place(tensor)
        if place is None:
            return None
        for frame in _running(self._frames):
            variables = compat.frames.variables_of(frame)
            names = [
                name
                for name, value in variables.items()
                if name[:1] != "_" and is_a(value, torch.Tensor) and _place(value) == place
            ]
            variables.clear()
            if names:
                return names[0] if len(names) == 1 else None
        return None

    def module(self, module: torch.nn.Module) -> str:
        """Return a module's name for a report: path and class, ``trunk.2 (Dropout)``, or the class alone."""
        kind = type(module).__name__
        modules = _live_modules()
        try:
            path = _best_path([(module, "")], modules, self._frames)
        finally:
            modules.clear()
        return kind if path is None or path == kind else f"{path} ({kind})"

    def way_to(self, wanted: object) -> str | None:
        return _search([wanted], self._frames).get(id(wanted))

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """Return each name with its tensor, for every tensor that a variable leads to.

        Those of the innermost function are first, by the fewest steps.
        """
        reached = _reachable(self._frames, _DEEPEST_TENSOR)
        named = {(name, id(value)): (name, value) for name, value in reached if is_a(value, torch.Tensor)}
        return list(named.values())


# --- modules -----------------------------------------------------------------------------------
class _Settled(NamedTuple):
    """The modules of the collector's oldest generation, and its counts when they were listed."""

    collections: tuple[int, int]
    modules: tuple[weakref.ref[torch.nn.Module], ...]


_looking = SharedLock()
_settled: list[_Settled] = []
"""Cache of the oldest generation's modules: it holds nearly all objects, so listing it takes about 0.1 s."""


def _live_modules() -> dict[int, torch.nn.Module]:
    """Return every module of the process, by id.

    The collector's list of all objects holds tuples that other threads are still filling, and
    ``tuple(generator)`` ends in a SystemError if another reference to its tuple exists. So one call into C,
    which no thread can interrupt, takes, filters and drops the list. Held by
    tests/unit/source/test_live_modules.py.
    """
    with _looking:  # one at a time: the end of one call would enable the collector during another thread's
        collecting = gc.isenabled()
        gc.disable()  # a collection would run finalizers in between, and change the lists
        try:
            classes = _module_classes()
            modules = [module for generation in (0, 1) for module in _sifted(generation, classes)]
            modules += _oldest(classes)
        finally:
            if collecting:
                gc.enable()
    return {id(module): module for module in modules if type(module) in classes}


def _oldest(classes: set[type]) -> list[torch.nn.Module]:
    """Return the modules in the oldest generation; list it again only if an object may have joined it.

    Objects join it when the generation before it, or all, are collected. From Python 3.14 on, which collects
    incrementally, every collection may move some. Objects from ``gc.unfreeze`` are found after the next
    collection, because counting the frozen ones would take as long as listing all.
    """
    _, younger, all_of_them = (each["collections"] for each in gc.get_stats())
    now = younger, all_of_them
    if sys.version_info < (3, 14) and _settled and _settled[0].collections == now:
        return [module for kept in _settled[0].modules if (module := kept()) is not None]
    modules = _sifted(2, classes)
    _settled[:] = [_Settled(now, tuple(map(weakref.ref, modules)))]
    return modules


def _sifted(generation: int, classes: set[type]) -> list[Any]:
    """Return the collector's objects of ``classes`` in one of its generations.

    ``compress`` reads the list twice, for the objects and for their types. Both iterators must be exhausted:
    the lists hold these very iterators, and such a cycle would stay until the next collection. The second
    list has a few objects more, made while the first one was read, so the first is padded. If the program
    collects in between, the second has fewer, so both are read to their ends. Types are compared by identity,
    because ``isinstance`` would run a proxied object's code. Held by tests/unit/source/test_owners.py.
    """

    def listed() -> Iterator[Any]:
        return itertools.chain.from_iterable(map(gc.get_objects, (generation,)))

    objects = itertools.chain(listed(), itertools.repeat(None, 64))
    again = listed()
    sifted = list(itertools.compress(objects, map(classes.__contains__, map(type, again))))
    for iterator in (objects, again):
        deque(iterator, maxlen=0)
    return sifted


def _module_classes() -> set[type]:
    """Return ``Module`` and all its live subclasses."""
    classes: set[type] = set()
    remaining: list[type] = [torch.nn.Module]
    while remaining:
        classes.update(remaining)
        nearest: Iterator[type] = itertools.chain.from_iterable(map(type.__subclasses__, remaining))
        remaining = [each for each in nearest if each not in classes]
    return classes


def _owners(place: _MemoryPlace, modules: Mapping[int, torch.nn.Module]) -> list[tuple[torch.nn.Module, str]]:
    """Return (module, attribute) of each tensor with extent ``place``; else of the smallest that it is
    within, if those have one extent."""
    sharing = [
        (module, name, there)
        for module in modules.values()
        for name, tensor in _tensors(module)
        if (there := _place(tensor)) is not None and there.storage == place.storage
    ]
    exact = [(module, name) for module, name, there in sharing if there == place]
    # A transposed or sliced view, as of one of several parameters in a flat tensor.
    inner = place.elements
    around = [
        of for of in sharing if of[2].elements.start <= inner.start and inner.stop <= of[2].elements.stop
    ]
    least = min((len(there.elements) for *_, there in around), default=0)
    nearest = [of for of in around if len(of[2].elements) == least]
    alone = len({there for *_, there in nearest}) == 1
    return exact or [(module, name) for module, name, _ in nearest if alone]


def _registered(module: torch.nn.Module, *registries: str) -> Iterator[tuple[str, Any]]:
    """Yield what a module has registered, by name, without running code of its class."""
    own = contents(module)
    for registry in registries:
        entries = own.get(registry)
        if isinstance(entries, dict):
            # Copied, because another thread may register something meanwhile.
            yield from ((name, value) for name, value in list(entries.items()) if isinstance(name, str))


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a module's own parameters and buffers by name.

    FSDP1 registers a flat parameter in their place, and leaves the parameters as views among the attributes.
    """
    is_flat = compat.tensors.is_flat
    for name, tensor in _registered(module, "_parameters", "_buffers"):
        if is_a(tensor, torch.Tensor) and not is_flat(tensor):
            yield name, tensor
    for name, tensor in list(contents(module).items()):
        if is_a(tensor, torch.Tensor) and is_flat(tensor._base):
            yield name, tensor


class _Path(NamedTuple):
    """A path that names an object: from a variable, or from a class, down to it."""

    start: str | None  # the user's name for the path's outermost module; None if no variable leads to it
    root: str  # the class name of the outermost module
    steps: tuple[str, ...]

    @property
    def text(self) -> str:
        steps = (step for step in self.steps if step != _FSDP)  # which hands on what is looked up on it
        return ".".join([self.start or self.root, *steps])

    @property
    def rank(self) -> tuple[bool, int, bool, int, int, str]:
        """Sort key; lower is better: a user's variable, the outermost module, not ``self``, short.

        The outermost module is better because `m` in ``for m in model.modules()`` stays bound to some layer.
        """
        depth = sum(step not in _WRAPPERS for step in self.steps)
        text = self.text
        first = text.partition(".")[0].partition("[")[0]
        return self.start is None, -depth, first == "self", text.count("[") + text.count("."), len(text), text


def _best_path(
    wanted: Sequence[tuple[torch.nn.Module, str]],
    modules: Mapping[int, torch.nn.Module],
    frames: Sequence[FrameType] | None,
) -> str | None:
    """Return the best of all paths to the wanted modules, ended by the name that came with each."""
    if not wanted:
        return None
    parents: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    for module in modules.values():
        for name, child in _registered(module, "_modules"):
            parents.setdefault(id(child), []).append((module, name))
    ways = [
        (root, (*steps, *filter(None, [name])))
        for module, name in wanted
        for root, steps in _ways_up(module, parents)
    ]
    names = _search([root for root, _ in ways], frames)
    paths = (_Path(names.get(id(root)), type(root).__name__, steps) for root, steps in ways)
    return min(paths, key=lambda path: path.rank).text


def _ways_up(
    module: torch.nn.Module, parents: Mapping[int, list[tuple[torch.nn.Module, str]]]
) -> Iterator[tuple[torch.nn.Module, tuple[str, ...]]]:
    """Yield every module that contains ``module`` (itself first), each with the path down from it."""
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
    """Yield (name, object) for all objects that variables lead to: scope by scope, fewest steps first."""
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
    """Return the best name that leads to each wanted object, by id; unnamed ones are missing."""
    ids = {id(target) for target in wanted}
    best_names: dict[int, str] = {}
    for name, value in _reachable(frames, _DEEPEST):
        if id(value) in ids:
            best = best_names.get(id(value))
            if best is None or _Path(name, "", ()).rank < _Path(best, "", ()).rank:
                best_names[id(value)] = name
    return best_names


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, object) one step further, in the user's words; the first 200 elements of a container."""
    kind = type(value)
    if kind is dict:
        for key, inner in list(value.items())[:200]:
            if type(key) in (str, int):
                yield f"{name}[{key!r}]", inner
    elif kind in (list, tuple):
        for index, inner in enumerate(value[:200]):
            yield f"{name}[{index}]", inner
    elif _holds_things(kind):
        for key, inner in list(contents(value).items())[:200]:
            if type(key) is str and key.isidentifier() and key not in _REGISTRIES and key[:2] != "__":
                yield f"{name}.{key}", inner


def _holds_things(kind: type) -> bool:  # the program's own classes, and modules
    # Most values are numbers and strings, whose classes are no heap types.
    if kind.__flags__ & _HEAP_TYPE == 0:
        return False
    return not issubclass(kind, (torch.Tensor, type, types.ModuleType, types.FunctionType))


def _running(frames: Sequence[FrameType] | None) -> list[FrameType]:
    if frames is not None:
        return list(frames)
    return [frame for frame, _ in walk_stack(sys._getframe(1)) if not is_library(frame.f_code)]


def _scopes(frames: Sequence[FrameType] | None) -> Iterator[dict[str, Any]]:
    """Yield the variables of the frames, innermost first, then their globals and those of ``__main__``."""
    every = _running(frames)
    for frame in every:
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            yield compat.frames.variables_of(frame)
    done: set[int] = set()
    main = sys.modules.get("__main__")
    for scope in [*(frame.f_globals for frame in every), getattr(main, "__dict__", {})]:
        if id(scope) not in done:
            done.add(id(scope))
            yield compat.frames.named(scope)
    every.clear()


# --- tensors -----------------------------------------------------------------------------------
def _place(tensor: torch.Tensor) -> _MemoryPlace | None:
    """Return the tensor's memory extent; None if it has no storage of its own (sparse, lazy, wrapper)."""
    try:
        if not compat.tensors.is_plain(tensor):
            return None
        return _MemoryPlace(
            compat.tensors.storage_key(tensor),
            int(tensor.storage_offset()),
            tuple(tensor.shape),
            tuple(tensor.stride()),
        )
    # LazyLinear's weight raises ValueError, a freed storage RuntimeError: tests/unit/source/test_owners.py.
    except Exception:
        return None
