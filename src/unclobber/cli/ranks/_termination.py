"""Tell before SIGTERM ends the process, and end by it all the same.

``torchrun`` sends it to every rank as soon as one has failed, often while this rank waits in a
collective for the one that failed: the main thread is in C++ and no handler in Python can run. So a
thread waits at the pipe that the interpreter writes each signal's number to, tells, puts the default
action back and raises the signal again. A program that installs a handler of its own takes ours away.
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
    """From `install` to `remove`, SIGTERM calls ``tell`` in a thread of its own, once.

    Args:
        tell: True where it has told and the process is to end now; False to let it run on.
    """

    def __init__(self, tell: Callable[[], bool]) -> None:
        self._tell = tell
        self._read = self._write = -1

    def install(self) -> None:
        """Where a program's starter has said what SIGTERM does, ours keeps out."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        threading.Thread(target=self._wait, name="unclobber-sigterm", daemon=True).start()
        signal.signal(signal.SIGTERM, self._handle)
        if (others := signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)) != -1:
            signal.set_wakeup_fd(others)
        # A child that is ended at once must not write into its parent's pipe before it has let go of it.
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=self._in_child)

    def _in_child(self) -> None:
        """A forked child is no rank: SIGTERM does to it what it did before."""
        if signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if (others := signal.set_wakeup_fd(-1)) not in (-1, self._write):
            signal.set_wakeup_fd(others)
        _let_go()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Only where another wakeup descriptor was set before or after ours is this needed.
        with contextlib.suppress(OSError):
            os.write(self._write, bytes([number]))

    def _wait(self) -> None:
        while byte := os.read(self._read, 1):
            if byte[0] != signal.SIGTERM or signal.getsignal(signal.SIGTERM) != self._handle:
                continue
            try:
                ends = self._tell()
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


def _die() -> None:
    """End by SIGTERM's default action; ``signal.signal`` is the main thread's alone."""
    set_action = ctypes.pythonapi.PyOS_setsig
    set_action.argtypes, set_action.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    set_action(signal.SIGTERM, None)
    os.kill(os.getpid(), signal.SIGTERM)
