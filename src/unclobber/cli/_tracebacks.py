"""Tracebacks of the program's own failures, without unclobber's frames."""

from __future__ import annotations

import os
import sys
from types import FrameType, TracebackType

from ..model import PACKAGE

_OWN = PACKAGE + os.sep


def show(error: BaseException) -> int | None:
    """Pass an uncaught exception to ``sys.excepthook``; return the exit code if a program's hook exits."""
    without_own_frames(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    # Set as the interpreter does, because `pdb.pm()` and notebooks read them.
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException as second:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, second.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)
    return None


def without_own_frames(error: BaseException) -> None:
    """Remove unclobber's frames from the tracebacks of an exception and of everything chained to it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = _stripped(current.__traceback__)
        todo += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            todo += current.exceptions


def _stripped(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without unclobber's frames, nor the import machinery that they call."""
    entries: list[TracebackType] = []
    own_so_far = traceback is not None and _is_own(traceback.tb_frame)
    while traceback is not None:
        # `<frozen runpy>` and what it imports with, below unclobber's frames, were called by it; below the
        # program's frames, by the program (test_as_without_us.py, test_a_failing_module).
        if _is_own(traceback.tb_frame):
            # Above them it is what calls `TorchFinder` (test_bad_input.py, test_broken_torch).
            while entries and _is_frozen(entries[-1]):
                entries.pop()
        elif not (own_so_far and _is_frozen(traceback)):
            own_so_far = False
            entries.append(traceback)
        traceback = traceback.tb_next
    rebuilt: TracebackType | None = None
    for entry in reversed(entries):
        rebuilt = TracebackType(rebuilt, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return rebuilt


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OWN)


def _is_frozen(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith("<frozen ")
