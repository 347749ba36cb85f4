"""Stacks as ``(code, lasti, code, lasti, …)``, innermost first.

Walking ``sys._getframe`` and keeping code objects and instruction offsets costs about 70 ns a
frame, keeps no locals alive, and ``code.co_positions()`` gives the exact columns later. Lines are
looked up only for a report.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ClassVar

from ..model import PACKAGE
from .sites import Stack as Stack
from .sites import is_library

_OURS = PACKAGE + os.sep  # the path prefix of this package's files


class Elsewhere:
    """Functions of other rooms that know of stacks."""

    of_program: ClassVar[Callable[[], Stack] | None] = None
    """Native version of :func:`of_program`; None if the Python core walks the frames."""
    engine_is_called_at: ClassVar[Callable[[], Stack]] = tuple
    """Returns the stack of the backward for which a thread of the engine's works; empty in other threads."""


_USUAL = 25
_DEEPEST = 200


def capture(depth: int = 1) -> Stack:
    """Return the stack of the frame ``depth`` levels above the caller's own.

    Keeps the innermost 32 frames, and goes deeper if all of those are a library's, so that the user's line is
    in it however deep a framework nests. The first frames are unrolled, because this runs at every save and
    the loop alone costs a third of the walk.
    """
    try:
        f: Any = sys._getframe(depth)
    except ValueError:
        return ()  # a library's own thread, which runs no Python below this call
    a, b, f = f.f_code, f.f_lasti, f.f_back
    if f is None:
        return (a, b)
    c, d, f = f.f_code, f.f_lasti, f.f_back
    if f is None:
        return (a, b, c, d)
    e, g, f = f.f_code, f.f_lasti, f.f_back
    if f is None:
        return (a, b, c, d, e, g)
    h, i, f = f.f_code, f.f_lasti, f.f_back
    if f is None:
        return (a, b, c, d, e, g, h, i)
    j, k, f = f.f_code, f.f_lasti, f.f_back
    if f is None:
        return (a, b, c, d, e, g, h, i, j, k)
    m, n, f = f.f_code, f.f_lasti, f.f_back
    if f is None:
        return (a, b, c, d, e, g, h, i, j, k, m, n)
    p, q, f = f.f_code, f.f_lasti, f.f_back
    out = [a, b, c, d, e, g, h, i, j, k, m, n, p, q]
    add = out.append
    room = _USUAL
    while f is not None and room:
        add(f.f_code)
        add(f.f_lasti)
        f = f.f_back
        room -= 1
    if f is not None:
        go_deeper(f, out)
    return tuple(out)


def of_program() -> Stack:
    """Return the stack from the innermost frame outside this package on.

    In a thread of torch's engine's own it goes on with that of the call for which it works. Slower than
    :func:`capture`, which serves what happens at every save. The native core has its own version.
    """
    if Elsewhere.of_program is not None:
        stack, callers = Elsewhere.of_program(), Elsewhere.engine_is_called_at()
        return (*stack, *callers) if callers else stack
    frame: FrameType | None = sys._getframe(1)
    depth = 2
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        depth, frame = depth + 1, frame.f_back
    return (*(() if frame is None else capture(depth)), *Elsewhere.engine_is_called_at())


def go_deeper(frame: FrameType | None, out: list[Any]) -> None:
    """Extend ``out`` to the program's innermost frame if it has only a library's; ``frame`` is next."""
    if any(not is_library(code) for code in out[::2]):
        return
    room = _DEEPEST
    while frame is not None and room:
        out.append(frame.f_code)
        out.append(frame.f_lasti)
        if not is_library(frame.f_code):
            return
        frame = frame.f_back
        room -= 1


def code_of(function: Any) -> CodeType | None:
    """Return the code that runs first when ``function`` is called; None if it isn't Python code."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)  # of a method
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(function.__class__.__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None
