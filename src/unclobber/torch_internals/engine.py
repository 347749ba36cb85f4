"""The wrapper of the function that ``backward()`` and ``autograd.grad`` end in, and its subscribers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from . import compat
from .patches import Patches


class EngineCall:
    """A call of the engine: its arguments, and its answer once it has returned."""

    __slots__ = ("answer", "args", "done", "kwargs", "roots", "thread")

    def __init__(self, roots: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Describe a call that is about to start."""
        self.roots = roots  # the tensors (or gradient edges) that backward starts from
        self.args = args  # further positional arguments of torch's call
        self.kwargs = kwargs
        self.done = False  # whether the engine has returned without raising
        self.answer: Any = None  # the engine's result; None before it has returned
        self.thread: Any = None  # a subscriber's state of the thread of the call

    @property
    def is_internal(self) -> bool:
        """Return whether torch itself calls: in a transform of ``torch.func``, or while it is traced."""
        return compat.graph.is_internal_backward(self.roots)

    @property
    def gradients(self) -> tuple[Any, ...]:
        """Gradients of the roots; None for a root that gets ones."""
        return tuple(self._argument(0, "grad_tensors") or ())

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Tensors (or edges) whose gradients are requested; empty if those of all leaves are."""
        return tuple(self._argument(3, "inputs") or ())

    @property
    def keeps_graph(self) -> bool:
        return bool(self._argument(1, "keep_graph"))

    @property
    def creates_graph(self) -> bool:
        return bool(self._argument(2, "create_graph"))

    @property
    def starts(self) -> list[Any]:
        return [node for node in map(compat.graph.node_of, self.roots) if node is not None]

    def graph(self) -> dict[int, Any] | None:
        return compat.graph.reachable(self.starts)

    def runs_of(self, graph: Mapping[int, Any]) -> Collection[int]:
        """Return the ids of the nodes of ``graph`` that the engine runs, on a way to the inputs if given."""
        return compat.graph.on_a_way_to(self.inputs, graph) if self.inputs else graph.keys()

    def _argument(self, position: int, name: str) -> Any:
        return self.args[position] if len(self.args) > position else self.kwargs.get(name)

    def keep_graph(self) -> None:
        if len(self.args) > 1:
            self.args = (self.args[0], True, *self.args[2:])
        else:
            self.kwargs = {**self.kwargs, "keep_graph": True}


class Subscriber(Protocol):
    """Client notified at the start of each engine call, and by its ``end(state, call)`` at the end."""

    def begin(self, call: EngineCall) -> Any:
        """Prepare for a call that is about to start. Return a state for ``end``.

        If this raises or returns None, ``end`` is not called for this subscriber.
        """


class Engine:
    """Subscribers to the engine's calls: ``begin`` in their order, ``end`` in the reverse."""

    def __init__(self) -> None:
        """Make an engine without subscribers; torch's function is not wrapped yet."""
        # A tuple, so that a subscription during a call leaves the running iteration whole.
        self._subscribers: tuple[Subscriber, ...] = ()
        self._patches = Patches()
        self._stays = 0  # number of installations that keep torch's function wrapped without a subscriber
        self.on_unwatched: Callable[[], None] | None = None
        """Called before each engine call without a subscriber."""
        self.by_core: Callable[..., Callable[..., Any]] | None = None
        """The native core's way to make a call that has no subscriber but its own. Called with this engine,
        torch's function and ``_run`` of that; returns what is called instead."""
        self._lock = threading.RLock()

    def install(self, patches: Patches) -> None:  # it stays even without a subscriber
        with self._lock:
            self._wrap()
            self._stays += 1
        patches.at_undo(self._uninstall)

    def subscribe(self, subscriber: Subscriber, *, last: bool = False) -> Callable[[], None]:
        """Notify ``subscriber``, before all others or as the ``last``. Return what ends it."""
        with self._lock:
            self._wrap()
            if subscriber not in self._subscribers:
                now, place = self._subscribers, len(self._subscribers) * last
                self._subscribers = (*now[:place], subscriber, *now[place:])
        return functools.partial(self.unsubscribe, subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop notifying ``subscriber``. After the last one torch's function is restored, unless it stays."""
        with self._lock:
            self._subscribers = tuple([other for other in self._subscribers if other is not subscriber])
            self._unwrap()

    def _uninstall(self) -> None:
        with self._lock:
            self._stays -= 1
            self._unwrap()

    def _wrap(self) -> None:
        if not self._subscribers and not self._stays:
            homes = compat.entries.BACKWARD
            for home, name in homes[:1]:
                self._patches.stand_in(home, name, self._caller)
            for home, name in homes[1:]:
                self._patches.replace(home, name, getattr(*homes[0]))

    def _unwrap(self) -> None:
        if not self._subscribers and not self._stays:
            self._patches.undo()

    def _caller(self, original: Any) -> Callable[..., Any]:
        run = functools.partial(self._run, original)
        return run if self.by_core is None else self.by_core(self, original, run)

    def _run(self, original: Any, outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Call torch's function between the subscribers' ``begin`` and ``end``."""
        if not self._subscribers:
            if self.on_unwatched is not None:
                self.on_unwatched()
            return original(outputs, *args, **kwargs)
        # `states_in` reads `started` from the frame, here and in `failed`.
        call = EngineCall(outputs, args, kwargs)
        started: list[tuple[Any, Any]] = []
        try:
            for subscriber in self._subscribers:
                if (state := subscriber.begin(call)) is not None:
                    started.append((subscriber, state))
            call.answer = original(outputs, *call.args, **call.kwargs)
            call.done = True
            return call.answer
        finally:
            _end(call, started)

    def failed(self, call: EngineCall, started: list[tuple[Any, Any]], error: BaseException) -> None:
        """End a call that the native core has made, and raise the ``error`` of torch's function."""
        context = error.__context__  # which a new `raise` replaces
        try:
            raise error
        finally:
            error.__context__ = context
            del error, context  # they hold the traceback, and so this frame
            _end(call, started)

    def states_in(self, frame: Any) -> list[Any]:
        makes_call = frame.f_code in (Engine._run.__code__, Engine.failed.__code__)
        return [state for _, state in frame.f_locals.get("started", ())] if makes_call else []

    def ran_below(self, stack: tuple[Any, ...]) -> bool:
        """Return whether a backward ran when ``stack`` was taken: its saves belong to ``create_graph``."""
        return compat.entries.ENGINES_CODE in stack[::2]


def _end(call: EngineCall, started: list[tuple[Any, Any]]) -> None:
    """Notify the subscribers of a call's end, the newest last, even if others raise."""
    for place in range(len(started) - 1, -1, -1):
        subscriber, state = started[place]
        try:
            subscriber.end(state, call)
        except BaseException:
            _end(call, started[:place])
            raise


engine = Engine()
