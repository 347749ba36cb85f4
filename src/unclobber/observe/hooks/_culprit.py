"""Trace function that finds the program's instruction that changed memory while a registered operation ran.

The operation's kernel may be a Python function. The trace function checks after each instruction whether
the memory is still as it was, so the answer is the very call or assignment. A debugger's or a coverage
tool's trace function is left alone: then the line isn't known.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from traceback import walk_stack
from types import FrameType
from typing import Any

from ...source import Stack, is_library

_QUIET = ("LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "STORE_FAST", "STORE_DEREF", "PUSH_NULL",
          "PRECALL", "KW_NAMES", "RESUME", "NOP", "COPY", "SWAP", "POP_TOP", "BUILD_", "RETURN_", "JUMP",
          "POP_JUMP", "CACHE", "MAKE_CELL", "EXTENDED_ARG", "MAKE_FUNCTION")  # fmt: skip
"""Beginnings of the names of instructions that write to no tensor."""

_MOST_BYTES = 1 << 28  # bytes compared in one run of an operation; beyond that, its line stays unknown


class Culprit:
    """Context that traces the program's frames.

    Args:
        changed: Returns whether the memory has changed.
        nbytes: Bytes that one such check compares.
    """

    def __init__(self, changed: Callable[[], bool], nbytes: int) -> None:
        """Make the tracer; the class lists the arguments."""
        self._changed = changed
        self._looks = _MOST_BYTES // max(nbytes, 1)
        self._running: list[FrameType] = []
        self._last: tuple[FrameType, int] | None = None
        self._tracing = False
        self.stack: Stack = ()  # stack of the change; empty if unknown

    def __enter__(self) -> Culprit:
        """Start tracing, unless another trace function is set (test_another_trace_function_is_left_alone)."""
        self._tracing = sys.gettrace() is None
        if self._tracing:
            if sys.version_info[:2] == (3, 12):
                # Only 3.12 reports no instruction unless some frame requested that before `settrace`.
                sys._getframe().f_trace_opcodes = True
            sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        if self._tracing:
            sys.settrace(None)
        self._running.clear()
        self._last = None

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace the instructions of a frame that starts, unless a library's code runs in it."""
        if self._looks <= 0 or self.stack or is_library(frame.f_code):
            return None
        frame.f_trace = self._stepped  # first: Python 3.13 ignores the next line without it
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._running.append(frame)
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Check the memory after the last instruction, if that can write, and note the next one."""
        if self.stack or self._looks <= 0:
            return None
        last = self._last
        opcode = None if last is None or last[1] < 0 else last[0].f_code.co_code[last[1]]
        if last is not None and opcode is not None and not dis.opname[opcode].startswith(_QUIET):
            # Each check compares all bytes, so `_MOST_BYTES` bounds the cost of a run.
            self._looks -= 1
            if self._changed():
                self.stack = _stack(*last)
                return None
        if event == "return":
            if self._running and self._running[-1] is frame:
                self._running.pop()
            # The caller goes on with the instruction that it was at.
            caller = self._running[-1] if self._running else None
            self._last = None if caller is None else (caller, caller.f_lasti)
        else:
            self._last = (frame, frame.f_lasti)
        return self._stepped


def _stack(frame: FrameType, lasti: int) -> Stack:
    entries = [part for at, _ in walk_stack(frame) for part in (at.f_code, at.f_lasti)]
    return (frame.f_code, lasti, *entries[2:])
