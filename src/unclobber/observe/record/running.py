"""The code that runs at this moment: the operation that saved last, and the module or optimizer that acts."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from itertools import islice, takewhile
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, ClassVar

from ...source import Stack, code_of

_DEEPEST = 200  # limit of frames that are searched for an actor


class _Newest(threading.local):
    """The newest save that Python code noted in this thread."""

    save: tuple[int, Stack] = (-1, ())
    """(Sequence number of the next node, stack) of the save; (-1, ()) before the first one."""
    of_native: ClassVar[Callable[[], tuple[int, Stack]] | None] = None
    """Returns the newest save that the native core noted without Python; None until it can note any."""


newest = _Newest()


def newest_save() -> tuple[int, Stack]:
    """Return this thread's newest save in either core: (sequence number of the next node, stack)."""
    if _Newest.of_native is None:
        return newest.save
    return max(newest.save, _Newest.of_native(), key=lambda save: save[0])


def noted_elsewhere(native_newest: Callable[[], tuple[int, Stack]]) -> list[tuple[CodeType, bool]]:
    """Query the native core for its newest save too, from now on.

    Return the codes by which it finds an ``actor``, each with whether it makes an optimizer's step.
    """
    _Newest.of_native = native_newest
    return list(_calling_codes().values())


def actor(depth: int = 1) -> weakref.ref[Any] | None:
    """Return a weak reference to the innermost module or optimizer whose code is running, or None.

    Called only for writes that hit a watched storage, because reading a frame's locals is slow. Inspects
    torch's own calling code alone (``Module.__call__``, ``Optimizer.step``), never the user's frames.
    """
    calls = _calling_codes()
    try:
        innermost = sys._getframe(depth)
    except ValueError:
        return None
    for frame, _ in islice(walk_stack(innermost), _DEEPEST):
        # by id, because hashing a code object hashes all its contents
        if (calling := calls.get(id(frame.f_code))) is not None:
            _, is_step = calling
            owner = frame.f_locals.get("self")
            if is_step and _in_closure(frame, innermost):
                return None
            try:
                return None if owner is None else weakref.ref(owner)
            except TypeError:
                return None
    return None


def _in_closure(step: FrameType, innermost: FrameType) -> bool:
    """Return whether ``Optimizer.step`` is running the closure that it was given, which is the user's code.

    Lightning runs every training step in such a closure. A callable without Python code counts as the running
    closure.
    """
    own = step.f_locals
    given = [*own.get("args", ())[1:], *own.get("kwargs", {}).values()]
    codes = [code_of(value) for value in given if callable(value)]
    inside = [at.f_code for at, _ in takewhile(lambda pair: pair[0] is not step, walk_stack(innermost))]
    return any(code is None or any(code is running for running in inside) for code in codes)


@functools.cache
def _calling_codes() -> dict[int, tuple[CodeType, bool]]:
    """Return the code objects of ``Module._call_impl`` and ``Optimizer.step``'s wrapper, by ``id``.

    Each comes with whether it makes an optimizer's step.
    """
    from torch.nn import Module
    from torch.optim import Optimizer

    codes: dict[int, tuple[CodeType, bool]] = {}
    for owner, attribute in ((Module, "_call_impl"), (Optimizer, "profile_hook_step")):
        code = getattr(getattr(owner, attribute, None), "__code__", None)
        for part in () if code is None else (code, *code.co_consts):
            if isinstance(part, CodeType):
                codes[id(part)] = part, owner is Optimizer
    return codes
