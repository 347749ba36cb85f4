"""The end of a program: its exit code, and the interpreter's steps between its body and its exit."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import NoReturn

from ..repair.main_module import is_default_hook
from ._errors import UsageError
from ._tracebacks import show

_PROGRAMS = "the watched program was interrupted"

_AFTER_A_FAILURE = 3.0  # seconds to wait, after a program failed, for processes that it started


@dataclass(frozen=True)
class ProgramEnd:
    """How a program's body ended."""

    exit_code: int = 0  # exit code of the process, 0 to 255
    failed: bool = False  # whether an exception of the program's own was uncaught
    refused: bool = False  # whether the uncaught exception is a finding
    interrupted: bool = False
    terminated: bool = False  # whether SIGTERM is about to end the process, wherever the program is


def run(
    program: Callable[[], None],
    is_finding: Callable[[BaseException], bool],
    *,
    story_follows: Callable[[], bool],
) -> ProgramEnd:
    """Run a program to the end of its body and show an uncaught exception; return how it ended.

    Args:
        program: `Target.run` of a target that is prepared.
        is_finding: Returns whether an error is a refusal that the report explains, not the program's own.
        story_follows: Returns whether a refusal's explanation is printed instead of its traceback.
    """
    try:
        program()
    # Raised by the target itself, before any code of the program ran.
    except UsageError:
        raise
    except SystemExit as exit_:
        return ProgramEnd(_exit_code(exit_.code))
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt)
    except BaseException as error:
        refused = is_finding(error)
        # Another hook (a logger, a crash reporter) is part of the program: test_install.py,
        # test_a_hook_of_the_programs_own_is_called_as_before.
        explained = refused and story_follows() and is_default_hook(sys.excepthook)
        hook_code = None if explained else show(error)
        return ProgramEnd(1 if hook_code is None else hook_code & 0xFF, failed=not refused, refused=refused)
    return ProgramEnd()


def wait_for_threads(ending: ProgramEnd) -> ProgramEnd:
    """Shut ``concurrent.futures`` down and join the other threads, as the interpreter does after the body.

    Done before the report because those threads' writes and saves belong to it. Joining them one by one would
    wait for ever for an executor's idle workers; only this function ends them. ``multiprocessing`` calls it
    for the same reason, and the interpreter's own later call finds nothing left to do.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt)
    return ending


def wait_for_children(ending: ProgramEnd) -> ProgramEnd:
    """Wait for the processes that the program started, if the interpreter would wait for one of them.

    Their findings belong to the report. ``multiprocessing`` waits in an exit handler, and another handler of
    the program's may be what ends such a process: so all handlers run now, in their order. After a failure
    the wait is limited, because the process may be in a collective that this one has left.
    """
    import multiprocessing  # here, because `--help` and `check` start no program and it takes 20 modules

    # Daemons are killed at the exit, so the interpreter waits for none of them.
    children = [child for child in multiprocessing.active_children() if not child.daemon]
    if not children:
        return ending
    if ending.exit_code == 0:
        atexit._run_exitfuncs()
        return ending
    try:
        end = monotonic() + _AFTER_A_FAILURE
        for child in children:
            child.join(max(0.0, end - monotonic()))
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt)
    return ending


def _interrupted(interrupt: KeyboardInterrupt) -> ProgramEnd:
    show(interrupt)
    return ProgramEnd(130, failed=True, interrupted=True)


def die_interrupted() -> NoReturn:
    """Raise KeyboardInterrupt so that the interpreter finalises and dies by SIGINT, as after Ctrl-C.

    The hook is silenced once, because the program's traceback has been shown already.
    """
    before = sys.excepthook

    def silent(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.excepthook = before

    # A raised exception and not os.kill: only an uncaught KeyboardInterrupt lets the interpreter finalise
    # first.
    sys.excepthook = silent
    raise KeyboardInterrupt(_PROGRAMS)


def is_the_programs(interrupt: KeyboardInterrupt) -> bool:
    return interrupt.args == (_PROGRAMS,)  # it ended the watched program, and was shown already


def _exit_code(code: object) -> int:  # as `sys.exit(code)` does
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1
