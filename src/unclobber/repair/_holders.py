"""Other holders of a tensor that is about to be written, seen in the running program.

There are none if all references to the tensor and to its memory are accounted for: the written name,
attribute or item itself, autograd's saves of it, and the tensor that only it is a view of. Counted at each
run of the statement.
"""

from __future__ import annotations

import builtins
import gc
import os
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from traceback import walk_stack
from types import CellType, FrameType
from typing import Any

import torch

from ..session import Session
from ..torch_internals import compat
from ._job import HeldBy
from ._probes import PASSED, PLACE, WriteStatement

_MOST_WORDS = 3


class Holders:
    """Callbacks for the calls that ``_probes.instrumented`` inserts into a program.

    The ledger of the run's session knows autograd's current saves.
    """

    def __init__(self, session: Session, recorded: Container[int] = ()) -> None:
        self._ledger = session.ledger
        self._recorded = recorded  # identities of the tensors to which the run's recorder refers, too
        self.held: dict[WriteStatement, HeldBy] = {}

    def install(self) -> None:
        """Publish the callbacks as builtins, until the process ends."""

        def place(path: str, line: int, column: int, name: str, value: Any) -> bool:
            if not isinstance(value, torch.Tensor):
                return False
            self._look(WriteStatement(path, line, column), name, value, sys._getframe(1))
            return True

        def passed(path: str, line: int, column: int, value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                self._look(WriteStatement(path, line, column), "", value, sys._getframe(1))
            return value

        setattr(builtins, PLACE, place)
        setattr(builtins, PASSED, passed)

    def _look(self, write: WriteStatement, name: str, value: torch.Tensor, frame: FrameType) -> None:
        """Record the holders of a tensor that is about to be written."""
        seen = self.held.setdefault(write, HeldBy())
        # Once another holder is known, further runs of the statement can't clear it.
        if seen.others:
            return
        saves = self._ledger.let_go(value)
        # `_calls` hands its argument on as `passed` and this method do.
        references = sys.getrefcount(value) - _calls(object()) - compat.tensors.references_by_torch(value)
        references -= id(value) in self._recorded
        own = int(bool(name) and not name.isidentifier())
        if own:
            seen.names.add(name)  # the container's or the object's reference
        memory = compat.tensors.holders(value) - 1 - self._accounted(value, saves, 1)
        alone = not memory and compat.tensors.use_count(value) == 1 and not _remembers(value)
        if alone and references == own:
            return
        if alone and references == 1 and name.isidentifier():
            seen.names.add(name)
            return
        # A checkpoint keeps what its second forward computes for the saves of the first, which was looked at.
        every = (compat.frames.variables_of(at) for at, _ in walk_stack(frame))
        if any(compat.entries.checkpoint_in(variables) is not None for variables in every):
            return
        names, sharers = self._in(frame, value)
        # Each part that `chunk` gives is a view of one base.
        bases = [id(sharer._base) for sharer in sharers.values()]
        views = 1 + bases.count(id(value._base))
        memory = compat.tensors.holders(value) - 1 - self._accounted(value, saves, views)
        if name.isidentifier() and not names and frame.f_globals.get(name) is value:
            names.add(name)
        seen.names |= names
        by_leaf = value.requires_grad and not compat.graph.has_history(value)  # its AccumulateGrad holds it
        explained = compat.tensors.use_count(value) <= 1 + len(sharers) + by_leaf and (
            references == own + len(names) or self._is_passed_on(seen, frame, value, name, references)
        )
        if not explained or not self._memory_is(sharers, memory) or _remembers(value):
            # A reference that is counted but not found may be held by C code.
            seen.others = tuple(_words(value, frame, name)) or ("something",)
        else:
            # A loop and no comprehension, whose closure would hold the tensor.
            for other, sharer in sharers.items():
                if self._ledger.share_elements(value, sharer):
                    seen.names.add(other)

    def _is_passed_on(
        self, seen: HeldBy, frame: FrameType, value: torch.Tensor, place: str, references: int
    ) -> bool:
        """Return whether only variables of the running functions, their containers and their calls hold a
        tensor, and record these variables."""
        known = {id(of) for at, _ in walk_stack(frame) for of in (at, at.f_globals)}
        containers: list[Any] = []
        counted, slots = int(bool(place) and not place.isidentifier()), 0
        # Each call keeps its arguments where Dynamo evaluates frames: in eager parts of compiled code, and
        # in a thread in which a compilation has failed.
        keeps = _calls(object()) - _called(object()) > 1
        for depth, (at, _) in enumerate(walk_stack(frame)):
            variables = compat.frames.variables_of(at)
            for name, variable in variables.items():
                holds = variable is value
                counted += holds
                if type(variable) in (tuple, list, dict) and id(variable) not in known:
                    parts = variable.values() if type(variable) is dict else variable
                    times = list(map(id, parts)).count(id(value))
                    holds = bool(times) and not place.startswith(f"{name}[")
                    if times and not any(variable is container for container in containers):
                        containers.append(variable)
                        counted += times - place.startswith(f"{name}[")
                if holds and at is frame:
                    seen.names.add(name)
                elif holds:
                    seen.callers.add((os.path.realpath(at.f_code.co_filename), at.f_lineno, name))
                if holds:
                    slots = depth + keeps  # each call may keep its argument until it returns
            variables.clear()
            variable = parts = None
        referrers = gc.get_referrers(value)
        known |= {id(referrers), id(containers)}
        for container in containers:
            known.add(id(container))
            if not _is_of_a_call(container, known):
                return False
        for referrer in referrers:
            if id(referrer) in known:
                continue
            if type(referrer) is not tuple or not _is_of_a_call(referrer, known):
                return False
            counted += 1
        return counted <= references <= counted + slots

    def _accounted(self, value: torch.Tensor, saved: int, views: int) -> int:
        """Return how many holders of a tensor's memory are autograd's: saves of it, and the views' base."""
        base = value._base
        if base is None:
            return saved
        # counted for `base`: this name and the call's argument; and for torch: its object and the views
        is_alone = sys.getrefcount(base) - compat.tensors.references_by_torch(base) == 2
        return saved + (is_alone and compat.tensors.use_count(base) == 1 + views)

    def _in(self, frame: FrameType, value: torch.Tensor) -> tuple[set[str], dict[str, torch.Tensor]]:
        """Return the names of a frame that hold the tensor, and those of other tensors in its memory."""
        names, sharers = set(), {}
        address = compat.tensors.storage_key_or_none(value)
        variables = compat.frames.variables_of(frame)
        for name, variable in variables.items():
            if variable is value:
                names.add(name)
            elif type(variable) is torch.Tensor and compat.tensors.storage_key_or_none(variable) == address:
                sharers[name] = variable
        variables.clear()
        return names, sharers

    def _memory_is(self, sharers: dict[str, torch.Tensor], memory: int) -> bool:
        """Return whether the other holders of a tensor's memory are exactly these names."""
        # each tensor is referred to by its name, by `sharers`, by the loop and by the call
        by_torch, recorded = compat.tensors.references_by_torch, self._recorded
        alone = all(sys.getrefcount(t) - by_torch(t) == 4 + (id(t) in recorded) for t in sharers.values())
        return alone and len({id(tensor) for tensor in sharers.values()}) == memory


def _called(value: object) -> int:
    """Return the references to an argument that nothing but this call holds."""
    return sys.getrefcount(value)


def _calls(value: object) -> int:
    """Return the references to an argument that nothing but two calls hold, one within the other."""
    return _called(value)


_ITERABLES: tuple[Iterable[Any], ...] = ([], (), {}, {}.values(), {}.items())
_ITERATORS: tuple[type, ...] = (zip, enumerate, *(type(iter(iterable)) for iterable in _ITERABLES))
"""Iterators, some of which keep the last tuple that they gave, to use it again."""


def _is_of_a_call(container: Any, known: set[int]) -> bool:
    """Return whether only known objects, calls in progress and iterators hold a container."""
    referrers = gc.get_referrers(container)
    known.add(id(referrers))
    # A loop and no generator, which would refer to the container itself.
    for referrer in referrers:
        # `zip(fast.items(), grads)` keeps a tuple with the tuple of `items`; a cell is a variable of
        # its function as long as no inner function has it (`args` of Module._call_impl).
        nested = type(referrer) in (tuple, CellType) and _is_of_a_call(referrer, known)
        if not nested and id(referrer) not in known and type(referrer) not in _ITERATORS:
            return False
    return True


def _remembers(value: torch.Tensor) -> bool:
    return type(value) is not torch.Tensor or value.retains_grad or bool(vars(value))


def _words(value: torch.Tensor, frame: FrameType, place: str) -> Iterator[str]:
    """Yield the holders in words, as far as they are known, innermost first; at most three."""
    named: list[str] = []
    for at, _ in walk_stack(frame):
        variables = compat.frames.variables_of(at)
        for name, variable in variables.items():
            if variable is value and not (at is frame and name == place) and not name.startswith("__"):
                named.append(f"`{name}`" if at is frame else f"`{name}` in `{at.f_code.co_name}`")
        variables.clear()
    named += _referrers(value)
    key = re.split(r"\W+", place.rstrip("']"))[-1]  # of what the place itself is an entry of
    own = [word for word in named if word.startswith(f"`.{key}`")]
    if own and (place != key or frame.f_globals.get(place) is value):
        named.remove(own[0])
    address, known = compat.tensors.storage_key_or_none(value), id(value)
    others = (other for other in gc.get_objects() if type(other) is torch.Tensor and id(other) != known)
    if not named and address in map(compat.tensors.storage_key_or_none, others):
        named.append("a view of it")
    if _remembers(value):
        named.append("what was asked of the tensor itself (`retain_grad`, an attribute, its class)")
    yield from list(dict.fromkeys(named))[:_MOST_WORDS]


def _referrers(value: torch.Tensor) -> Iterator[str]:
    """Yield the containers that refer to the tensor, in words."""
    known = id(value)  # an id, because the closures below must not refer to the tensor themselves
    for referrer in gc.get_referrers(value):
        if isinstance(referrer, dict):
            keys = _keys(referrer, known)
            yield from (f"`.{key}`" if key.isidentifier() else f"`[{key!r}]`" for key in keys)
        elif isinstance(referrer, (list, set, tuple)):
            yield f"a {type(referrer).__name__}"
        elif isinstance(referrer, CellType):
            yield "a closure"
        elif not isinstance(referrer, FrameType) and hasattr(referrer, "__dict__"):
            yield from (f"`.{key}` of a {type(referrer).__name__}" for key in _keys(vars(referrer), known))


def _keys(names: Mapping[Any, Any], known: int) -> list[str]:
    return [key for key, held in list(names.items()) if id(held) == known and isinstance(key, str)]
