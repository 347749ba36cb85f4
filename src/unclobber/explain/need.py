"""The one builder of a ``Need``: a backward call, or another line that needs a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model import Need
from ..observe.hooks import BackwardCall, BackwardMark, backward_calls
from ..source import Stack, of_program, resolve
from . import reads
from ._live import LiveFrame, stack_of, user_place


def at(stack: Stack, node: Any = None, *, nth: int = 1) -> Need:
    """Return the Need of a line; a backward call if ``nth`` is its number.

    Args:
        node: The node of the graph that unpacks the tensor; None if the line itself reads it.
    """
    return Need(resolve(stack), nth, None if node is None else reads.node_name(node))


def of(call: BackwardCall | BackwardMark, backwards_before: int, node: Any = None) -> Need:
    # Calls of the process before the session don't count.
    return at(call.stack, node, nth=call.written - backwards_before)


def running(node: Any, backwards_before: int) -> Need:
    call = backward_calls.current()
    return at(of_program(), node) if call is None else of(call, backwards_before, node)


def failed(live_frames: Sequence[LiveFrame], backwards_before: int, node: Any = None) -> Need:
    call = call_of(live_frames)
    return at(stack_of(live_frames), node) if call is None else of(call, backwards_before, node)


def latest(live_frames: Sequence[LiveFrame], backwards_before: int) -> Need:
    """Return the Need of the backward in which Python code raised: the traceback has no frame of the engine's
    wrapper then, but the line of this thread's latest call."""
    stack = stack_of(live_frames)
    calls = [mark for mark in backward_calls.last_two()[-1:] if user_place(mark.stack) == user_place(stack)]
    return of(calls[0], backwards_before) if calls else at(stack)


def call_of(live_frames: Sequence[LiveFrame]) -> BackwardCall | None:
    calls = (backward_calls.in_frame(live_frame.frame) for live_frame in live_frames)
    return next((call for call in calls if call is not None), None)
