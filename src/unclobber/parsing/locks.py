"""A lock for what the whole process shares."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class SharedLock:
    """One that a forked child finds free: the thread that held it isn't there. Made once, by a module.

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
