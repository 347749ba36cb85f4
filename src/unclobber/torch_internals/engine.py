"""The one wrapper of the function that ``backward()`` and ``autograd.grad`` end in, and who is told."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from . import compat
from .patches import Patches


class EngineCall:
    """One call of the engine."""

    __slots__ = ("answer", "args", "done", "is_internal", "kwargs", "roots")

    def __init__(self, roots: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.roots = roots
        """The tensors (or gradient edges) that backward starts from."""
        self.args = args
        """What torch is given beside them."""
        self.kwargs = kwargs
        self.is_internal = compat.is_internal_backward(roots)
        """Whether torch makes it by itself: in a transform of ``torch.func``, which allows no hooks, or
        while ``torch.compile`` traces."""
        self.done = False
        """Whether the engine has returned, and raised nothing."""
        self.answer: Any = None
        """What it has returned."""

    @property
    def gradients(self) -> tuple[Any, ...]:
        """The gradients of the roots, as backward was given them."""
        return tuple(self._argument(0, "grad_tensors") or ())

    @property
    def keeps_graph(self) -> bool:
        """What the program gave as ``retain_graph=``."""
        return bool(self._argument(1, "keep_graph"))

    @property
    def creates_graph(self) -> bool:
        """Whether backward itself is recorded."""
        return bool(self._argument(2, "create_graph"))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The tensors whose gradients alone are asked for; empty where it is all leaves'."""
        return tuple(self._argument(3, "inputs") or ())

    def _argument(self, position: int, name: str) -> Any:
        """torch's own Python gives all by position."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name)

    def keep_graph(self) -> None:
        """Have the engine keep the graph, whatever the program gave."""
        if len(self.args) > 1:
            self.args = (self.args[0], True, *self.args[2:])
        else:
            self.kwargs = {**self.kwargs, "keep_graph": True}


class Subscriber(Protocol):
    """Who is told of the engine's calls."""

    def begin(self, call: EngineCall) -> Any:
        """A call is about to start. What is returned is given to ``end``; if this raises, there is no end."""

    def end(self, begun: Any, call: EngineCall) -> None:
        """The call is over. What this raises, the program gets."""


class Engine:
    """Who is told of the engine's calls: the newest subscriber begins first, and ends last."""

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()
        self._patches = Patches()
        self._stays = 0
        """For how many it stays wrapped while nobody is told."""
        self.on_unwatched: Callable[[], None] | None = None
        """Called in front of each call of which nobody is told."""
        self._lock = threading.RLock()

    def install(self, patches: Patches) -> None:
        """Leave torch's function wrapped until ``patches`` are undone, also while nobody is told."""
        with self._lock:
            self._wrap()
            self._stays += 1
        patches.at_undo(self._uninstall)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell ``subscriber`` of every call from now on; for the first one torch's function is wrapped."""
        with self._lock:
            self._wrap()
            self._subscribers = (subscriber, *self._subscribers)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Tell it no more; after the last one torch's function is put back, unless it stays."""
        with self._lock:
            self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)
            self._unwrap()

    def _uninstall(self) -> None:
        with self._lock:
            self._stays -= 1
            self._unwrap()

    def _wrap(self) -> None:
        if not self._subscribers and not self._stays:
            homes = compat.backward_homes()
            for home, name in homes[:1]:
                self._patches.stand_in(home, name, lambda original: functools.partial(self._run, original))
            for home, name in homes[1:]:
                self._patches.replace(home, name, getattr(*homes[0]))  # one object, as before

    def _unwrap(self) -> None:
        if not self._subscribers and not self._stays:
            self._patches.undo()

    def _run(self, original: Any, outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if not self._subscribers:
            if self.on_unwatched is not None:
                self.on_unwatched()
            return original(outputs, *args, **kwargs)
        call = EngineCall(outputs, args, kwargs)
        begun: list[tuple[Subscriber, Any]] = []
        try:
            for subscriber in self._subscribers:
                begun.append((subscriber, subscriber.begin(call)))
            call.answer = original(outputs, *call.args, **call.kwargs)
            call.done = True
            return call.answer
        finally:
            _end(call, begun)

    def subscription(self, subscriber: Subscriber) -> Callable[[], None]:
        """:meth:`subscribe`, and what ends it."""
        self.subscribe(subscriber)
        return functools.partial(self.unsubscribe, subscriber)

    def begun_in(self, frame: Any) -> list[Any]:
        """What the subscribers made of the call that a frame makes; nothing for a frame that makes none."""
        return [state for _, state in frame.f_locals.get("begun", ())] if frame.f_code is CODE else []


def _end(call: EngineCall, begun: list[tuple[Subscriber, Any]]) -> None:
    """The newest subscriber, which has begun first, comes last, whatever the others raise."""
    for place in range(len(begun) - 1, -1, -1):
        subscriber, state = begun[place]
        try:
            subscriber.end(state, call)
        except BaseException:
            _end(call, begun[:place])
            raise


CODE = Engine._run.__code__
"""Of the frame of each call."""

engine = Engine()
