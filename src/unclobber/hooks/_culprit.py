"""Which instruction of the program's Python changed memory while a registered operation ran.

The operation's kernel may be a Python function. It is run with a trace function that asks after each
instruction whether the memory is still as it was; so the answer is the very call or assignment. A
debugger's or a coverage tool's trace function is left alone: then the line isn't known.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ..source import Stack
from ..source.sites import is_library

_QUIET = ("LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "STORE_FAST", "STORE_DEREF", "PUSH_NULL",
          "PRECALL", "KW_NAMES", "RESUME", "NOP", "COPY", "SWAP", "POP_TOP", "BUILD_", "RETURN_", "JUMP",
          "POP_JUMP", "CACHE", "MAKE_CELL", "EXTENDED_ARG", "MAKE_FUNCTION")  # fmt: skip
"""Beginnings of the names of instructions that write to no tensor."""

_MOST_BYTES = 1 << 28
"""Bytes compared in one run of an operation; beyond that, its line stays unknown."""


class Culprit:
    """Traces the user's frames from ``with`` to the end of it.

    Args:
        changed: Whether the memory has changed.
        nbytes: What one answer costs, in bytes that are compared.
    """

    def __init__(self, changed: Callable[[], bool], nbytes: int) -> None:
        self._changed = changed
        self._looks = _MOST_BYTES // max(nbytes, 1)
        self._running: list[FrameType] = []
        self._last: tuple[FrameType, int] | None = None
        self._tracing = False
        self.stack: Stack = ()
        """Where it changed; empty where that isn't known."""

    def __enter__(self) -> Culprit:
        self._tracing = sys.gettrace() is None
        if self._tracing:
            if sys.version_info[:2] == (3, 12):
                # It tells of instructions only where some frame had asked for them before ``settrace``.
                sys._getframe().f_trace_opcodes = True
            sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        if self._tracing:
            sys.settrace(None)
        self._running.clear()
        self._last = None

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self._looks <= 0 or self.stack or is_library(frame.f_code):
            return None
        frame.f_trace = self._stepped  # first: Python 3.13 overhears the next line where there is none
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._running.append(frame)
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.stack or self._looks <= 0:
            return None
        last = self._last
        if last is not None and not _instruction(*_at(last)).startswith(_QUIET):
            self._looks -= 1
            if self._changed():
                self.stack = _stack(*last)
                return None
        if event == "return":
            if self._running and self._running[-1] is frame:
                self._running.pop()
            # whoever called it goes on with the instruction that it was at
            caller = self._running[-1] if self._running else None
            self._last = None if caller is None else (caller, caller.f_lasti)
        else:
            self._last = (frame, frame.f_lasti)
        return self._stepped


def _at(place: tuple[FrameType, int]) -> tuple[CodeType, int]:
    return place[0].f_code, place[1]


def _instruction(code: CodeType, lasti: int) -> str:
    return dis.opname[code.co_code[lasti]] if lasti >= 0 else "RESUME"


def _stack(frame: FrameType, lasti: int) -> Stack:
    found: list[Any] = [frame.f_code, lasti]
    outer = frame.f_back
    while outer is not None:
        found += (outer.f_code, outer.f_lasti)
        outer = outer.f_back
    return tuple(found)
