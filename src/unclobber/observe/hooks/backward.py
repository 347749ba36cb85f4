"""Record of the running calls of ``backward()`` and ``autograd.grad``.

Backward unpacks a saved tensor on the calling thread for CPU graphs, and on a device's own thread for
others. There the Python stack is empty, and this record is the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import torch

from ...source import Stack, frames, of_program
from ...torch_internals import compat
from ...torch_internals.engine import EngineCall, engine
from ...torch_internals.patches import Patches
from ..native import core
from ._node_notes import NodeNotes


class BackwardCall(NamedTuple):
    """Running call of the engine; dropped when it returns. The native core makes it by position."""

    nth: int
    """Position among all backward calls of the process while any session was active, from 1."""
    written: int
    """Position among the calls that the program wrote: a reentrant checkpoint's has that of the call in
    which it runs."""
    stack: Stack
    outer: BackwardMark | None
    """The mark of the call that was running when this one started; None if there was none."""
    fresh_from: int | None
    """Nodes from this sequence number on can't have been in the graph of an earlier call. None if other
    threads, which number their own nodes, made calls, too."""
    paused: bool  # whether its writes go unseen because no Python of the program's runs in it
    saw_writes: bool  # whether its thread did before
    of_engine: EngineCall  # its roots, inputs and graph


class BackwardMark(NamedTuple):
    """Trace of a call that is left for the nodes that it ran; it must keep no tensor alive."""

    nth: int
    stack: Stack
    keeps_graph: bool
    chosen: bool = False
    """Whether gradients of chosen inputs were requested, so that the call may have left nodes out."""
    before: int = 0
    """Sequence number of the next node of its thread when the call started: smaller ones existed already."""
    written: int = 0  # position among the calls that the program wrote


class NodeNote(NamedTuple):
    """Note left on a node by the unpack hook."""

    stack: Stack  # the stack of the node's operation
    mark: BackwardMark | None  # the last backward that unpacked its saves; None if that isn't known


class _Marker:
    """Holder of the mark of the running call; None while several threads run one, or no thread does."""

    __slots__ = ("_native", "noted", "notes", "now")

    def __init__(self) -> None:
        """Start without a running call."""
        self.notes: NodeNotes[tuple[Stack, BackwardMark | None]] = NodeNotes()
        """Notes of ``note_of`` that the native core doesn't have."""
        self.now: BackwardMark | None = None
        self.noted: Stack | None = None  # the stack of the saves whose node was noted last
        self._native: Any = None  # the native core, once it notes which backward unpacks

    def set(self, now: BackwardMark | None, call: BackwardCall | None) -> None:
        self.now, self.noted = now, None
        if self._native is not None:
            self._native.mark(now, call)  # the call that this thread runs

    def mirror_to(self, native: Any) -> None:
        if self._native is None:
            native.mark(self.now, None)
            self._native = native

    def note_of(self, node: Any) -> NodeNote | None:
        by_hooks = self.notes.of(node)
        by_core = None if self._native is None else self._native.note_of(node)
        # Hooks on torch's stack note here, the core notes its own queue: a node may have both notes, and
        # the later backward counts.
        notes = [NodeNote(*note) for note in (by_hooks, by_core) if note is not None]
        return max(notes, key=lambda note: -1 if note.mark is None else note.mark.nth, default=None)


started_at: NodeNotes[tuple[BackwardMark, ...]] = NodeNotes()
"""The last two backwards that began at a node, oldest first."""
marker = _Marker()


class Thread:
    """State of a thread."""

    def __init__(self) -> None:
        """Start without a call. Called in the thread."""
        self.calls: list[BackwardCall] = []
        self.highest = 0  # the largest sequence number of a root node of a call, plus one
        self.made = (-1, 0)
        """Two counts: the calls seen before the present clients, when this thread last made one, and this
        thread's calls since."""
        self.recent: list[BackwardMark] = []  # marks of the last two calls, oldest first
        self.first_node: int | None = None
        """Sequence number of the first node made since the present clients are notified; None in threads
        other than the one where that started."""
        self.hooks: list[Any] = []  # the ``saves.SavedTensorHooks`` that are entered here, outermost first
        self.observed = True  # whether sessions of another thread matter, for whose backward it runs
        self.mode: Any = None  # the ``fallback.WriteMode`` that sees its writes
        self.forwards: list[Any] = []  # running forwards of custom Functions, outermost first
        self.applying: Any = None
        """The call of ``apply`` of a Function that is about to look a method up in its class."""
        self.handed: list[tuple[Any, ...]] = []
        """The gradients of each custom Function whose backward is running, outermost first."""
        self.origins: list[torch.Tensor | None] | None = None
        """The saved tensors, one for each save that was unpacked since ``ctx.saved_tensors`` was read."""
        self.reading: tuple[Any, ...] = ()  # the ``_stale_reads.StaleReads`` that are entered
        self.ident = threading.get_ident()
        known = [each for each in threading.enumerate() if each.ident == self.ident]
        self.of_program = any(not isinstance(each, threading._DummyThread) for each in known)
        """Whether Python started it, and not torch's engine."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.thread = Thread()


local = _Local()


def _is_on(hook: Any, tensor_or_edge: Any) -> bool:
    if not isinstance(tensor_or_edge, torch.Tensor):
        return False
    with compat.unseen.unseen_by_functions():
        return any(each is hook for each in (tensor_or_edge._backward_hooks or {}).values())


def _is_of(node: Any, tensor_or_edge: Any) -> bool:
    if not isinstance(tensor_or_edge, torch.Tensor):
        return node is tensor_or_edge.node
    return getattr(node, "variable", None) is tensor_or_edge or node is compat.graph.grad_fn(tensor_or_edge)


def _leave_mark(roots: Sequence[Any], mark: BackwardMark) -> None:
    """Note ``mark`` for the root nodes of a backward, after each one's newest earlier mark."""
    marker.notes.forget_oldest()
    started_at.forget_oldest()
    for root in roots:
        node = compat.graph.renewed_grad_fn(root) if isinstance(root, torch.Tensor) else root.node
        if node is not None:
            key = compat.graph.node_key(node)
            local.thread.highest = max(local.thread.highest, key[1] + 1)
            started_at.newer[key] = (*(started_at.of(node) or ())[-1:], mark)


class BackwardCalls:
    """The engine's calls: their numbers, the running ones, and the traces that they leave on nodes."""

    def __init__(self) -> None:
        """Start without a call."""
        self.count = 0  # number of backward calls that were seen so far
        self.written = 0  # number of those that were not made inside of another one of the same thread
        self.before = 0  # number of calls that were seen before the present clients
        self.running: list[BackwardCall] = []
        self.may_pause: Callable[[], bool | str] = lambda: False
        """Return whether a call that starts may run unobserved (`pause`)."""
        self._observer: Any = self
        self._began = started_at.of  # the last two marks of a node, oldest first
        self.note_of = marker.note_of
        self._lock = threading.Lock()

    def install(self, patches: Patches) -> None:
        """Be notified while a client is, and by the native core if it runs."""
        self._observer, self._began, engine.by_core = self, started_at.of, None
        if (native := core.loaded().module) is not None:
            self._observer = SimpleNamespace(begin=native.backward_begin, end=native.backward_end)
            self._began = native.backward_started_at
            answers = (lambda: local.thread), self.may_pause, self.of_engines_thread
            native.observe_backward(self, marker, BackwardCall, BackwardMark, *answers)
            engine.by_core = partial(native.engine_run, EngineCall, self._observer)
        patches.while_active(self._subscribe)
        patches.at_undo(marker.notes.forget)
        patches.at_undo(started_at.forget)

    def _subscribe(self) -> Callable[[], None]:
        self.before = self.count
        local.thread.first_node = compat.graph.next_sequence_number()
        return engine.subscribe(self._observer)

    def begin(self, call: EngineCall) -> BackwardCall | None:
        """Number a call of the program and mark it as running; return None for an internal one of torch."""
        if call.is_internal:
            return None
        thread, of_engine = local.thread, self.of_engines_thread()
        with self._lock:
            self.count += 1
            nth = self.count
            outer = next(iter(thread.calls), of_engine)
            self.written += outer is None
            written = self.written if outer is None else outer.written
        saw_writes = compat.dispatcher.sees_writes()
        paused = saw_writes and self.may_pause() is True
        since, made = thread.made if thread.made[0] == self.before else (self.before, 0)
        fresh_from = thread.highest if since + made == nth - 1 else None
        thread.made = (since, made + 1)
        stack = of_program()
        running = BackwardCall(nth, written, stack, marker.now, fresh_from, paused, saw_writes, call)
        thread.calls.append(running)
        self.running.append(running)
        call.thread = thread
        # An unpack in an engine thread can't be matched to one of several threads' calls: no mark then.
        alone = of_engine is not None or len(self.running) == len(thread.calls)
        mark = BackwardMark(
            nth, stack, call.keeps_graph, bool(call.inputs), compat.graph.next_sequence_number(), written
        )
        marker.set(mark if alone else None, running)
        thread.recent[:] = (*thread.recent[-1:], mark)
        _leave_mark(call.roots, mark)
        if paused:
            compat.dispatcher.ignore_writes()
        return running

    def end(self, running: BackwardCall, call: EngineCall) -> None:
        """Forget a call that has returned, or raised."""
        if running.saw_writes:  # the engine runs nodes under the state that it found at the start
            compat.dispatcher.see_writes()
        calls = local.thread.calls
        calls.pop()
        self.running.remove(running)
        has_outer = calls or self.of_engines_thread() is not None
        marker.set(running.outer if has_outer else None, calls[-1] if calls else None)

    # --- queries --------------------------------------------------------------------------------
    def current(self) -> BackwardCall | None:
        """Return the backward call that this thread works for; None if none, or several could be."""
        calls = local.thread.calls
        return calls[-1] if calls else self._of_another_thread()

    def of_engines_thread(self) -> BackwardCall | None:
        """Return the call for which this thread of the engine's own runs a node; None in other threads."""
        thread = local.thread
        return None if thread.of_program or compat.graph.current_node() is None else self._of_another_thread()

    def _of_another_thread(self) -> BackwardCall | None:
        """Return the innermost call of the only other thread that runs any, for which the engine's own
        threads must work then."""
        this, running = local.thread, self.running[:]  # other threads' calls may end meanwhile
        others = [call for call in running if call.of_engine.thread is not this]
        same = all(call.of_engine.thread is others[0].of_engine.thread for call in others)
        return others[-1] if others and same else None

    def in_frame(self, frame: FrameType) -> BackwardCall | None:
        """Return the call that a frame makes or has made; of torch's own frame only while the call runs."""
        if frame.f_code is compat.entries.ENGINES_CODE:
            roots = next(iter(frame.f_locals.values()))
            return next((call for call in self.running if call.of_engine.roots is roots), None)
        return next((state for state in engine.states_in(frame) if isinstance(state, BackwardCall)), None)

    def last_two(self) -> tuple[BackwardMark, ...]:
        call = self.of_engines_thread()
        thread = local.thread if call is None else call.of_engine.thread
        return tuple(thread.recent)  # the running one among them, oldest first

    def only_earlier(self, call: BackwardCall) -> BackwardMark | None:
        """Return the mark of the call before ``call``; None if another came since its graph was made."""
        graph, first = call.of_engine.graph(), local.thread.first_node
        calls = [self.before + 1, self.before + 2]
        if not graph or [mark.nth for mark in local.thread.recent] != calls or call.nth != calls[1]:
            return None
        if first is None or any(compat.graph.sequence_number(node) < first for node in graph.values()):
            return None
        return local.thread.recent[0]

    def has_unpacked(self, node: Any) -> bool:
        note = marker.note_of(node)
        return note is not None and note.mark is not None and note.mark is marker.now

    def started_at(self, node: Any) -> tuple[BackwardMark, ...]:
        return self._began(node) or ()  # the last two, oldest first

    def times_given(self, gradient: Any) -> int:  # the engine holds it to their end
        # a call within a call may hand on what it was handed, also in a device's thread
        calls = local.thread.calls if local.thread.of_program else list(self.running)
        return sum([given is gradient for call in calls for given in call.of_engine.gradients])

    def hands_out_what_hooks_leave(self, hook: Any) -> bool:
        """Return whether the running call returns a gradient after ``hook``, a tensor's, has run on it.

        It does if the gradient of that tensor was requested, and the call goes no further there. If it goes
        on to another input, the gradient is taken first (torch/csrc/autograd/engine.cpp,
        ``evaluate_function``).
        """
        call = self.current()
        inputs = () if call is None else call.of_engine.inputs
        tensor = next((each for each in inputs if _is_on(hook, each)), None) if inputs else None
        if tensor is None:
            return False
        first = compat.graph.grad_fn(tensor)
        others = [each for each in inputs if each is not tensor]
        below = islice(compat.graph.nodes_below([first] if others else []), 1, None)
        return not any(_is_of(node, other) for node in below for other in others)


backward_calls = BackwardCalls()


def _engine_is_called_at() -> Stack:
    # of a thread of the program's there is nothing to look up, which most are
    call = None if local.thread.of_program else backward_calls.of_engines_thread()
    code = compat.entries.ENGINES_CODE
    return () if call is None else (*(() if code is None else (code, 0)), *call.stack)


frames.Elsewhere.engine_is_called_at = _engine_is_called_at
