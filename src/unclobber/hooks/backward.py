"""Which call of ``backward()`` or ``autograd.grad`` is running.

Both end in one function of torch, which we wrap while a session is active. A saved tensor is
asked for on the calling thread for CPU graphs and on a device's own thread for others; there the
Python stack is empty, and the call on record is the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from ..source import Stack, frames
from ..torch_internals import compat


class BackwardCall:
    """One running call. Dropped when it returns."""

    __slots__ = (
        "creates_graph", "fresh_from", "gradients", "inputs", "keeps_graph", "nth", "rests", "roots", "stack",
    )  # fmt: skip

    def __init__(self, nth: int, stack: Stack, roots: Sequence[Any], keeps_graph: bool) -> None:
        self.nth = nth
        """Position among all backward calls of the process while any session was active, from 1."""
        self.stack = stack
        self.roots = roots
        """The tensors (or gradient edges) that backward starts from."""
        self.gradients: tuple[Any, ...] = ()
        """Their gradients, as backward was given them."""
        self.inputs: tuple[Any, ...] = ()
        """The tensors whose gradients alone are asked for; empty where it is all leaves'."""
        self.fresh_from: int | None = None
        """Nodes from this sequence number on can't have been in the graph of an earlier call; None
        where other threads, which count for themselves, made calls, too."""
        self.keeps_graph = keeps_graph
        self.creates_graph = False
        """Whether backward itself is recorded."""
        self.rests = False
        """Whether its writes go unseen because no Python of the user's runs in it."""


class Mark(NamedTuple):
    """What is left of a call for the nodes that it ran: it must keep no tensor alive."""

    nth: int
    stack: Stack
    keeps_graph: bool
    chosen: bool = False
    """Whether only some inputs' gradients were asked for, so that it may have left nodes out."""
    before: int = 0
    """Nodes of its thread with smaller sequence numbers were there when it began."""


class _Marker:
    """The mark of the call that is running; None while several threads run one, or none."""

    __slots__ = ("now", "told")

    def __init__(self) -> None:
        self.now: Mark | None = None
        self.told: Stack | None = None
        """The stack of the saves whose node was told of it last."""


marker = _Marker()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.calls: list[BackwardCall] = []
        self.highest = 0
        """The largest sequence number of a node at which a call has begun, and one."""
        self.made = (-1, 0)
        """Calls seen before the installation that this thread last worked under, and its own since."""
        self.recent: tuple[Mark, ...] = ()
        """The last two calls."""
        self.first_node: int | None = None
        """The number of the first node made since the installation; None in other threads than its own."""


_thread = _Thread()
_running: list[BackwardCall] = []
_count = 0
_before = 0
"""Calls that were seen before the wrapper was last installed."""
_lock = threading.Lock()
_originals: list[tuple[Any, str, Any]] = []


def never() -> bool:
    return False


may_rest: Callable[[], bool] = never
"""Whether backward may run unseen; set by ``rest`` while a session is active."""

look_ahead: Callable[[BackwardCall], Callable[[], None] | None] | None = None
"""Called with each backward call before it runs, set by ``unmarked`` while a session is active; what it
returns is called at the end."""


def current() -> BackwardCall | None:
    """The backward call that this thread works for; None if there is none or it can't be told."""
    if _thread.calls:
        return _thread.calls[-1]
    return _running[0] if len(_running) == 1 else None


def times_given(gradient: Any) -> int:
    """How often the running calls were handed this very gradient; the engine holds it to their end."""
    # a device's thread has no calls of its own; a call within a call may hand on what it was handed
    calls = _thread.calls or list(_running)
    return sum(one is gradient for call in calls for one in call.gradients)


def hands_out_what_hooks_leave(tensor: torch.Tensor | None) -> bool:
    """Whether the running call was asked for the gradient of ``tensor``, and goes no further there: its hooks
    run before that gradient is taken. Where it goes on to another input the gradient is taken first
    (torch/csrc/autograd/engine.cpp, ``evaluate_function``)."""
    call = current()
    if tensor is None or call is None or not any(one is tensor for one in call.inputs):
        return False
    first = compat.grad_fn(tensor)
    others = [one for one in call.inputs if one is not tensor]
    todo, seen = [first] if first is not None and others else [], set()
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is None or node in seen:
                continue
            if any(_is_of(node, one) for one in others):
                return False
            seen.add(node)
            todo.append(node)
    return True


def _is_of(node: Any, one: Any) -> bool:
    """Whether a node hands on the gradient of ``one``, a tensor or gradient edge."""
    if not isinstance(one, torch.Tensor):
        return node is one.node
    return getattr(node, "variable", None) is one or node is compat.grad_fn(one)


def count() -> int:
    """How many backward calls were seen so far."""
    return _count


def install() -> None:
    """Wrap torch's function wherever it is bound."""
    global _before
    _before = _count
    _thread.first_node = compat.next_sequence_number()
    for home, name in compat.backward_homes():
        original = getattr(home, name)
        _originals.append((home, name, original))
        setattr(home, name, _wrapped(original))


def uninstall() -> None:
    while _originals:
        home, name, original = _originals.pop()
        setattr(home, name, original)


def only_earlier(call: BackwardCall, graph: Mapping[int, Any]) -> Mark | None:
    """The call before ``call`` if there was no other since all nodes of ``graph`` were made."""
    first = _thread.first_node
    if [mark.nth for mark in _thread.recent] != [_before + 1, _before + 2] or call.nth != _before + 2:
        return None
    if first is None or any(compat.sequence_number(node) < first for node in graph.values()):
        return None
    return _thread.recent[0] if graph else None


def last_two() -> tuple[Mark, ...]:
    """The newest backward calls of this thread, the running one among them."""
    return _thread.recent


def call_in(frame: FrameType) -> BackwardCall | None:
    """The call that a frame of the wrapper below is making; None for any other frame."""
    if frame.f_code is not _code[0]:
        return None
    call = frame.f_locals.get("call")
    return call if isinstance(call, BackwardCall) else None


def ran_below(stack: Stack) -> bool:
    """Whether a backward ran when ``stack`` was taken: what was saved then is ``create_graph``'s."""
    return any(code is _code[0] for code in stack[::2])


_code: list[CodeType | None] = [None]


def _leave_mark(roots: Sequence[Any], mark: Mark) -> None:
    """Let the nodes that a backward begins at know of it."""
    for root in roots:
        node = getattr(root, "node", None) or compat.renewed_grad_fn(root)
        if node is not None:
            _thread.highest = max(_thread.highest, compat.sequence_number(node) + 1)
            node.metadata[compat.ROOT_NOTE] = (*node.metadata.get(compat.ROOT_NOTE, ())[-1:], mark)


def _wrapped(original: Any) -> Any:
    def run_backward(outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        global _count
        if compat.in_transform(outputs):
            return original(outputs, *args, **kwargs)
        with _lock:
            _count += 1
            nth = _count
        # positional in torch: grad_tensors, retain_graph, create_graph, inputs
        keeps_graph = bool(args[1]) if len(args) > 1 else bool(kwargs.get("keep_graph", False))
        call = BackwardCall(nth, frames.capture(2), outputs, keeps_graph)
        call.gradients = tuple(args[0]) if args else ()
        call.creates_graph = len(args) > 2 and bool(args[2])
        call.inputs = tuple(args[3]) if len(args) > 3 and args[3] else ()
        since, made = _thread.made if _thread.made[0] == _before else (_before, 0)
        call.fresh_from = _thread.highest if since + made == nth - 1 else None
        _thread.made = (since, made + 1)
        _thread.calls.append(call)
        _running.append(call)
        alone = all(other in _thread.calls for other in _running)
        mark = Mark(nth, call.stack, keeps_graph, bool(call.inputs), compat.next_sequence_number())
        outer, marker.now, marker.told = marker.now, mark if alone else None, None
        _thread.recent = (*_thread.recent[-1:], mark)
        _leave_mark(outputs, mark)
        seen = compat.sees_writes()
        if seen and may_rest():
            call.rests = True
            compat.ignore_writes()
        end: Callable[[], None] | None = None
        try:
            end = None if look_ahead is None else look_ahead(call)
            return original(outputs, *args, **kwargs)
        finally:
            if end is not None:
                end()
            marker.now = outer if len(_thread.calls) > 1 else None
            marker.told = None
            # The engine runs nodes under the thread-local state that it found at the start.
            if seen:
                compat.see_writes()
            _thread.calls.pop()
            _running.remove(call)

    _code[0] = run_backward.__code__
    return run_backward
