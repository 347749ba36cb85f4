"""Stacks as ``(code, lasti, code, lasti, …)``, innermost first.

Walking ``sys._getframe`` and keeping code objects and instruction offsets costs about 70 ns a
frame, keeps no locals alive, and ``code.co_positions()`` gives the exact columns later. Lines are
looked up only for a report.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple

from ..model import PACKAGE
from .sites import Stack as Stack
from .sites import is_library

_OURS = PACKAGE + os.sep
"""The path prefix of this package's files."""


class _Newest(threading.local):
    """The newest save that Python code noted in this thread."""

    save: tuple[int, Stack] = (-1, ())
    """(Sequence number of the next node, stack) of the save; (-1, ()) before the first one."""


class _Native:
    """The native core's counterparts of functions in this file, if it runs."""

    newest_save: ClassVar[Callable[[], tuple[int, Stack]] | None] = None
    """Return the newest save that the native core noted without Python; None until it can note any."""
    of_program: ClassVar[Callable[[], Stack] | None] = None
    """Native version of :func:`of_program`; None if the Python core walks the frames."""


newest = _Newest()


def newest_save() -> tuple[int, Stack]:
    """Return this thread's newest save, noted by the Python or native core: (sequence number of the next
    node, stack)."""
    if _Native.newest_save is None:
        return newest.save
    return max(newest.save, _Native.newest_save(), key=lambda save: save[0])


def noted_elsewhere(native_newest: Callable[[], tuple[int, Stack]]) -> None:
    """Query the native core for its newest save too, from now on."""
    _Native.newest_save = native_newest


def walked_by(native: Any) -> None:
    """Let the native core walk the frames for :func:`of_program` from now on; Python's own walk if None."""
    _Native.of_program = None if native is None else native.of_program


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
    """Return the stack from the innermost frame outside this package on; empty if there is none.

    Slower than :func:`capture`, which serves what happens at every save. The native core has its own version.
    """
    if _Native.of_program is not None:
        return _Native.of_program()
    frame: FrameType | None = sys._getframe(1)
    depth = 2
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        depth, frame = depth + 1, frame.f_back
    return () if frame is None else capture(depth)


def go_deeper(frame: FrameType | None, out: list[Any]) -> None:
    """Extend ``out`` to the program's innermost frame if all its frames are a library's; ``frame`` comes
    next."""
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


def actor(depth: int = 1) -> weakref.ref[Any] | None:
    """Return a weak reference to the innermost module or optimizer whose code is running, or None.

    Called only for writes that hit a watched storage, because reading a frame's locals is slow. Inspects
    torch's own calling code alone (``Module.__call__``, ``Optimizer.step``), never the user's frames.
    """
    calls = _calling_codes()
    try:
        innermost = frame = sys._getframe(depth)
    except ValueError:
        return None
    for _ in range(_DEEPEST):
        # by id, because hashing a code object hashes all its contents
        if id(frame.f_code) in calls:
            owner = frame.f_locals.get("self")
            if calls[id(frame.f_code)].is_step and _in_closure(frame, innermost):
                return None
            try:
                return None if owner is None else weakref.ref(owner)
            except TypeError:
                return None
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def _in_closure(step: FrameType, innermost: FrameType) -> bool:
    """Return whether ``Optimizer.step`` is running the closure that it was given, which is the user's code.

    Lightning runs every training step in such a closure. A callable without Python code counts as the running
    closure.
    """
    own = step.f_locals
    given = [*own.get("args", ())[1:], *own.get("kwargs", {}).values()]
    codes = [code_of(value) for value in given if callable(value)]
    inside: list[CodeType] = []
    frame: FrameType | None = innermost
    while frame is not None and frame is not step:
        inside.append(frame.f_code)
        frame = frame.f_back
    return any(code is None or any(code is running for running in inside) for code in codes)


def code_of(function: Any) -> CodeType | None:
    """Return the code that runs first when ``function`` is called; None if it isn't Python code."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)  # of a method
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class _CallingCode(NamedTuple):
    """Code of torch's that calls a module, or an optimizer's step."""

    code: CodeType
    is_step: bool


@functools.cache
def _calling_codes() -> dict[int, _CallingCode]:
    """Return the code objects of ``Module._call_impl`` and of the wrapper of ``Optimizer.step``, by
    ``id``."""
    from torch.nn import Module
    from torch.optim import Optimizer

    def named(owner: Any, attribute: str) -> Iterator[CodeType]:
        code = getattr(getattr(owner, attribute, None), "__code__", None)
        if code is not None:
            yield code
            yield from (const for const in code.co_consts if isinstance(const, CodeType))

    calls, steps = named(Module, "_call_impl"), named(Optimizer, "profile_hook_step")
    codes = [_CallingCode(code, False) for code in calls] + [_CallingCode(code, True) for code in steps]
    return {id(calling.code): calling for calling in codes}
