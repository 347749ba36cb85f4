"""The program's frames: those that are running, those of a failure that has passed through them, and those on
a stack, as keys that are compared and as an expression."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ..observe.hooks import backward_calls
from ..source import Instruction, Located, Stack, is_library, is_plumbing, user_frame, user_stack


class LiveFrame(NamedTuple):
    """A frame of a failed call, with its last instruction."""

    frame: FrameType
    lasti: int

    @property
    def code(self) -> CodeType:
        return self.frame.f_code

    @property
    def at(self) -> Instruction:
        return Instruction(self.code, self.lasti)


def _running(innermost: FrameType) -> Iterator[FrameType]:
    """Yield this thread's frames; of a thread of the engine's also those of the thread that called it."""
    yield from (frame for frame, _ in walk_stack(innermost))
    if (call := backward_calls.of_engines_thread()) is not None:
        caller = sys._current_frames()[call.of_engine.thread.ident]
        yield from (frame for frame, _ in walk_stack(caller))


def user_frames(*, of_forward: bool = False) -> list[FrameType]:
    """Return the running frames of the user's code, innermost first.

    Args:
        of_forward: Leave out frames that run inside of backward. There a custom Function's ``grad_out`` may
            share the memory of a tensor that its forward saved, and is no name for it.
    """
    frames: list[FrameType] = []
    for frame in _running(sys._getframe(1)):
        if of_forward and backward_calls.in_frame(frame) is not None:
            frames.clear()
        if not is_library(frame.f_code):
            frames.append(frame)
    return frames


def user_frames_of(live_frames: Sequence[LiveFrame]) -> list[FrameType]:  # innermost first
    return [live_frame.frame for live_frame in live_frames if not is_library(live_frame.code)]


def user_depth(live_frames: Sequence[LiveFrame]) -> int | None:
    own = (depth for depth, live_frame in enumerate(live_frames) if not is_library(live_frame.code))
    return next(own, None)


def stack_of(live_frames: Sequence[LiveFrame]) -> Stack:
    return tuple(part for live_frame in live_frames for part in (live_frame.code, live_frame.lasti))


def frame_key(stack: Stack) -> tuple[Any, ...]:
    return Instruction(*stack[:2]).key if stack else ()


def user_place(stack: Stack) -> tuple[Any, ...] | None:
    place = user_frame(stack)
    return None if place is None else place.key


def user_expression(stack: Stack) -> tuple[Located, list[CodeType]] | None:
    """Return the innermost expression of the user's own code on a stack, and the library code below it,
    outermost first, without plumbing; None if the expression isn't certain."""
    place = user_frame(stack)
    located = None if place is None else place.located()
    if located is None:
        return None
    # The library's own frames say which of its functions ran the operation: `F.relu` for `self.act(x)`.
    below = stack[: len(stack) - len(user_stack(stack)) : 2]
    return located, [code for code in reversed(below) if not is_plumbing(code)]
