"""Kernels of ours in the place of others, which the dispatcher comes to whether anybody listens or not.

Registering one takes a few microseconds, so those of a session that has ended are kept for the next. What
the program runs through one in between costs it some microseconds, too: after a few runs the kernel is taken
away, by itself, and the next session registers it anew.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

_RUNS_ASLEEP = 32
"""So many runs cost about as much as registering a kernel anew."""


class Override:
    """One kernel over another's.

    Args:
        lock: Held while it is registered or taken away.
        lay: Registers a kernel that asks this for ``asleep`` and calls ``ran_asleep``, and returns what has a
            ``reset()`` to take it away.
    """

    __slots__ = ("_handle", "_lay", "_left", "_lock", "_taken_away", "asleep")

    def __init__(self, lock: threading.RLock, lay: Callable[[Override], Any]) -> None:
        self.asleep = True
        """Whether it is to do no more than what it lies over. torch may come to a kernel in Python that was
        taken away, too: with a dispatch mode it runs the one of an operation that was registered last."""
        self._lay = lay
        self._lock = lock
        self._handle: Any = None
        self._taken_away: Any = None
        self._left = 0

    def wake(self) -> None:
        """Begin to see writes."""
        if self._handle is None:
            # Only here: it has Python forget which of the program's warnings were shown already.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of a kernel over another's
                self._handle = self._lay(self)
        self._left = _RUNS_ASLEEP
        self.asleep = False

    def sleep(self) -> None:
        """See no more; it stays registered for now."""
        self.asleep = True

    def take_away(self) -> None:
        """Let what is below show again."""
        self.asleep = True
        if self._handle is not None:
            self._handle.reset()
            self._handle, self._taken_away = None, self._handle  # kept: it may be what runs this

    def ran_asleep(self) -> None:
        """The program has called the operation while nobody listens."""
        self._left -= 1
        if self._left < 0 and self._handle is not None and self._lock.acquire(blocking=False):
            try:
                if self.asleep:
                    self.take_away()
            finally:
                self._lock.release()
