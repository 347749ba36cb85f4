"""A report before SIGTERM ends the process; the process still ends by it.

``torchrun`` sends it to every rank as soon as one has failed, often while this rank waits in a
collective for the one that failed: the main thread is in C++ and no handler in Python can run. So a
thread waits at the pipe that the interpreter writes each signal's number to. The thread reports, puts the
default action back and raises the signal again. A program that installs its own handler replaces this one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import traceback
from collections.abc import Callable
from types import FrameType


class Termination:
    """A SIGTERM handler that calls its argument once, in a thread of its own.

    Args:
        report: Reports, and returns True if the process is to end now, False to let it run on.
    """

    def __init__(self, report: Callable[[], bool]) -> None:
        self._report = report
        self._read = self._write = -1

    def install(self) -> None:
        """Handle SIGTERM, unless its handler is no longer the default or this is not the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        self._read, self._write = os.pipe()
        # set_wakeup_fd takes only a descriptor that doesn't block.
        os.set_blocking(self._write, False)
        threading.Thread(target=self._wait, name="unclobber-sigterm", daemon=True).start()
        signal.signal(signal.SIGTERM, self._handle)
        # asyncio has set one, whose loop would sleep without it: it is put back, and `_handle` writes
        # instead.
        if (others := signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)) != -1:
            signal.set_wakeup_fd(others)
        # A child that gets SIGTERM right after the fork would write into its parent's pipe: block it
        # meanwhile.
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=self._in_child)

    def _in_child(self) -> None:  # a forked child is no rank
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if (others := signal.set_wakeup_fd(-1)) not in (-1, self._write):
            signal.set_wakeup_fd(others)
        _let_go()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Needed if the program set a wakeup descriptor of its own, which the interpreter writes to instead.
        with contextlib.suppress(OSError):
            os.write(self._write, bytes([number]))

    def _wait(self) -> None:
        """Read signal numbers from the pipe; report at SIGTERM and end the process."""
        while byte := os.read(self._read, 1):
            if byte[0] != signal.SIGTERM or signal.getsignal(signal.SIGTERM) != self._handle:
                continue
            try:
                ends = self._report()
            except BaseException:  # whatever it is, it must not keep the process from ending
                traceback.print_exc()
                ends = True
            if ends:
                _die()


_held = threading.local()


def _hold() -> None:
    _held.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_go() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _held.before)


def _die() -> None:  # through C, because `signal.signal` works in the main thread only
    set_action = ctypes.pythonapi.PyOS_setsig
    set_action.argtypes, set_action.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    set_action(signal.SIGTERM, None)
    os.kill(os.getpid(), signal.SIGTERM)
