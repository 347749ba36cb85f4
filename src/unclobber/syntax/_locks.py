"""A lock for state of the whole process."""

from __future__ import annotations

import os
import threading


class SharedLock:
    """A lock that is free in a forked child, because the thread that held it doesn't exist there. Create it
    once, in a module.

    Re-entrant, because a garbage collection that begins while it is held may run code of the program's.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
