"""Runs in which saved tensors are computed again when backward reads them, kept once, or not kept at all."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ...source import of_program
from ...torch_internals import compat
from .. import _places
from .._recorder import MemoryRecorder
from .._trace import Site
from ._option import SavesAt
from ._sites import SitesMode


@dataclass(frozen=True)
class _Maker:
    """A call that made a tensor, so that it can be made again."""

    function: Any
    arguments: Any  # its arguments, with `_HOLE` in the place of each tensor
    versions: tuple[int, ...]  # versions of these tensors when it ran


@dataclass(frozen=True)
class _Made:
    """The call that made a live storage."""

    call: _Maker
    given: list[Tensor]  # the tensors among its arguments
    version: int  # version of the result when it was made


_HOLE = object()
_NOTHING = object()  # stand-in for a saved tensor that backward is not expected to read


@dataclass(frozen=True)
class _Recipe:
    """Stand-in for a saved tensor: the call that makes it again."""

    call: _Maker
    sources: tuple[Any, ...]  # recipes, or what the hooks below returned
    size: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class KeepLess(SitesMode):
    """A mode that notes calls at some places and keeps their operands instead of their saved results.

    It is entered as a mode; ``hooks`` are entered as well, above those of a recorder.

    Args:
        again: Calls whose results are computed again.
        same: Calls whose results are kept once if two of them had the same arguments.
        dropped: Saves that are not kept.
        recorder: Goes on counting what is kept; None if nothing is recorded.
    """

    def __init__(
        self,
        again: Iterable[Site],
        same: Iterable[Site],
        dropped: Iterable[SavesAt],
        recorder: MemoryRecorder | None = None,
    ) -> None:
        """Prepare the hooks; they save through the recorder's hooks if there is a recorder."""
        self._again, self._same = frozenset(again), frozenset(same)
        super().__init__(self._again | self._same, recorder)
        self._dropped = frozenset(dropped)
        self._made: dict[int, _Made] = {}  # calls that made a live storage, by its key
        self._arguments: dict[int, Any] = {}
        """Function and arguments of a call whose result may be there twice, by the storage of that result."""
        self._running: Any = None
        """Function and arguments of a running call whose result may be there twice, or None."""
        self._saves = 0  # the number of its results that it has saved
        self._first: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        """The kept save of the first call with these arguments, by function, arguments and position in the
        result."""
        self._pack: Callable[[Tensor], Any] = Tensor.detach if recorder is None else recorder.pack
        # Without a recorder, what is packed is the tensor itself.
        self._unpack = (lambda held: held) if recorder is None else recorder.unpack
        self.hooks = saved_tensors_hooks(self._keep, compat.kept.recognizable(self._given_back))

    def called(self, site: Site, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call, and note how its result is made again or which results equal it."""
        call = _identity(site[1], (args, kwargs)) if site in self._same else None
        self._running, self._saves = call, 0
        try:
            out = func(*args, **kwargs)
        finally:
            self._running = None
        if isinstance(out, Tensor):
            if site in self._again:
                self._note(func, (args, kwargs), out)
            key = compat.tensors.storage_key_or_none(out)
            if call is not None and key is not None:
                self._arguments[key] = call
                # Weak, because the note must not keep the memory alive that it is to spare.
                weakref.finalize(out.untyped_storage(), self._arguments.pop, key, None)
        return out

    def _note(self, func: Any, arguments: Any, out: Tensor) -> None:
        """Note how `out` was made. Results on an argument's storage are left out."""
        key = compat.tensors.storage_key_or_none(out)
        tensors = compat.compilers.tensors_in(arguments)
        # A result on an argument's storage is a view or a write, which a second call would not undo.
        if key is None or key in [compat.tensors.storage_key_or_none(tensor) for tensor in tensors]:
            return
        versions = tuple(tensor._version for tensor in tensors)
        with self.unseen():
            given = [tensor.detach() for tensor in tensors]
        without = compat.compilers.map_tensors(lambda _: _HOLE, arguments)
        self._made[key] = _Made(_Maker(func, without, versions), given, out._version)
        weakref.finalize(out.untyped_storage(), self._made.pop, key, None)

    def _keep(self, tensor: Tensor) -> Any:
        if self._dropped and (_places.key(of_program()), tuple(tensor.shape)) in self._dropped:
            return _NOTHING
        return self._kept(tensor)

    def _kept(self, tensor: Tensor) -> Any:
        """Return what is kept for a saved tensor: a recipe, the save of an equal call, or its own save."""
        key = compat.tensors.storage_key_or_none(tensor) or 0
        if self._running is not None:
            # Saves of the call's own arguments are no results, so they are kept as usual.
            if not any(key == part[0] for part in self._running if isinstance(part, tuple)):
                self._saves += 1
                return self._kept_once(tensor, (self._running, self._saves))
        elif key in self._arguments:
            return self._kept_once(tensor, self._arguments[key])
        made = self._made.get(key)
        # Written since it was made, so the call would make the old value again.
        if made is None or made.version != tensor._version:
            return self._pack(tensor)
        if tuple(source._version for source in made.given) != made.call.versions:
            return self._pack(tensor)
        # Without tensors: the recipe lives in the graph, and its sources are saves of their own.
        sources = tuple(map(self._kept, made.given))
        place = (tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()))
        return _Recipe(made.call, sources, *place)

    def _kept_once(self, tensor: Tensor, call: Any) -> Any:
        place = (call, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), tensor._version)
        known = self._first.get(place)
        if known is None:
            known = self._first[place] = self._pack(tensor)
        return known

    def _given_back(self, held: Any) -> Tensor:
        """Return a saved tensor, computed from its recipe if it has one."""
        if held is _NOTHING:
            raise RuntimeError("backward reads what was taken for unneeded")
        if not isinstance(held, _Recipe):
            return self._unpack(held)
        sources = [self._given_back(source) for source in held.sources]
        # torch's own check sees the sources' saves alone, not that the result would be another one.
        if tuple(source._version for source in sources) != held.call.versions:
            raise RuntimeError("what it is to be computed from was overwritten")
        following = iter(sources)
        with torch.no_grad():
            args, kwargs = compat.compilers.tree_map(
                lambda leaf: next(following) if leaf is _HOLE else leaf, held.call.arguments
            )
            result: Tensor = held.call.function(*args, **kwargs)
            # The saved tensor may be a view of the result.
            return result.as_strided(held.size, held.strides, held.offset)


def _identity(name: str, arguments: Any) -> tuple[Any, ...]:
    """Return a key that is equal for two calls with the same function and the same argument values."""
    return name, *(
        (
            compat.tensors.storage_key_or_none(leaf),
            leaf.storage_offset(),
            tuple(leaf.shape),
            tuple(leaf.stride()),
            leaf.dtype,
            leaf._version,
        )
        if isinstance(leaf, Tensor)
        else repr(leaf)
        for leaf in compat.compilers.tree_leaves(arguments)
    )
