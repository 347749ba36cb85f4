"""How a program ended, and what the interpreter does between a program's body and its exit."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn

from ..main_module import is_default_hook
from ._errors import UsageError
from ._target import Target
from ._tracebacks import show

_PROGRAMS = "the watched program was interrupted"

_AFTER_A_FAILURE = 3.0
"""Seconds that the end of a failed program waits for processes that it started."""


@dataclass(frozen=True)
class ProgramEnd:
    """The end of a program's body."""

    exit_code: int = 0
    """What the process would exit with, 0 to 255."""
    failed: bool = False
    """Whether an exception of the program's own was uncaught."""
    refused: bool = False
    """Whether what was uncaught is a finding."""
    interrupted: bool = False
    terminated: bool = False
    """Whether SIGTERM is about to end the process, wherever the program is."""


def run(
    target: Target, is_finding: Callable[[BaseException], bool], *, story_follows: Callable[[], bool]
) -> ProgramEnd:
    """Run a program to the end of its body and show an uncaught exception.

    Args:
        target: The program; `Target.prepare` has been called.
        is_finding: Tells a refusal, which the report will explain, from the program's own failure.
        story_follows: Whether the story of a refusal is about to be printed instead of its traceback.
    """
    try:
        target.run()
    except UsageError:
        raise
    except SystemExit as exit_:
        return ProgramEnd(_exit_code(exit_.code))
    except KeyboardInterrupt as interrupt:
        show(interrupt)
        return ProgramEnd(130, failed=True, interrupted=True)
    except BaseException as error:
        refused = is_finding(error)
        # A hook of the program's own (a logger, a crash reporter) is part of what the program does.
        told = refused and story_follows() and is_default_hook(sys.excepthook)
        hook_code = None if told else show(error)
        return ProgramEnd(1 if hook_code is None else hook_code & 0xFF, failed=not refused, refused=refused)
    return ProgramEnd()


def wait_for_threads(ending: ProgramEnd) -> ProgramEnd:
    """Do what the interpreter does next: let ``concurrent.futures`` shut down, join the other threads.

    It is done early because what those threads write and need belongs to the report. Joining them by
    hand would wait for ever for an executor's idle workers, which only this function tells to stop;
    ``multiprocessing`` calls it for the same reason, and the interpreter's own later call finds
    nothing left to do.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except KeyboardInterrupt as interrupt:
        show(interrupt)
        return ProgramEnd(130, failed=True, interrupted=True)
    return ending


def wait_for_children(ending: ProgramEnd) -> ProgramEnd:
    """Do what the interpreter does then, if it would wait for a process that the program started.

    What such a process finds belongs to the report. ``multiprocessing`` waits in an exit handler, and what
    ends the process may be another one, of the program's own: so all are called now, in their order. After
    a failure this could be for ever, with nothing told (the process may be in a collective that this one
    has left), so it is waited for a moment.
    """
    import multiprocessing  # here, because `--help` and `check` start no program and it takes 20 modules

    if not any(not child.daemon for child in multiprocessing.active_children()):
        return ending
    if ending.exit_code == 0:
        atexit._run_exitfuncs()
        return ending
    try:
        end = time.monotonic() + _AFTER_A_FAILURE
        for child in multiprocessing.active_children():
            if not child.daemon:
                child.join(max(0.0, end - time.monotonic()))
    except KeyboardInterrupt as interrupt:
        show(interrupt)
        return ProgramEnd(130, failed=True, interrupted=True)
    return ending


def die_interrupted() -> NoReturn:
    """Let the interpreter end as after Ctrl-C: finalise, then die by SIGINT.

    Only an uncaught KeyboardInterrupt makes it do so; the program's traceback has been shown already.
    """
    before = sys.excepthook

    def silent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.excepthook = before

    sys.excepthook = silent
    raise KeyboardInterrupt(_PROGRAMS)


def is_the_programs(interrupt: KeyboardInterrupt) -> bool:
    """Whether Ctrl-C has ended the watched program and been shown, not a step of ours."""
    return interrupt.args == (_PROGRAMS,)


def _exit_code(code: object) -> int:
    """What ``sys.exit(code)`` makes of its argument, which may be a message."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1
