"""Kernels in the place of torch's or the program's, which the dispatcher runs even without a listener.

Registering one takes a few microseconds, so those of a session that has ended are kept for the next. A call
of the program through one in between costs it some microseconds, too. After a few such calls the kernel
unregisters itself, and the next session registers it again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

_DORMANT_RUNS = 32  # number of dormant runs that cost about as much as registering the kernel again


class Override:
    """A kernel that takes the place of another.

    Args:
        lock: Held while it is registered or taken away.
        register: Registers a kernel and returns its handle, with a ``reset()`` that unregisters it. The
            kernel reads whether the override is dormant, and reports dormant runs.
    """

    __slots__ = ("_handle", "_left", "_lock", "_register", "_taken_away", "dormant")

    def __init__(self, lock: threading.RLock, register: Callable[[Override], Any]) -> None:
        """Make a dormant override; the class lists the arguments."""
        self.dormant = True
        """Whether it only runs the kernel below. Taking the kernel away is not enough: under a dispatch mode
        torch runs the Python kernel that was registered last for an operation
        (test_a_custom_operation_under_a_mode)."""
        self._register = register
        self._lock = lock
        self._handle: Any = None
        self._taken_away: Any = None
        self._left = 0

    def activate(self) -> None:
        """Register the kernel unless it is registered, and let it see writes."""
        if self._handle is None:
            # Only here: `catch_warnings` makes Python forget which of the program's warnings were shown
            # (test_a_warning_of_the_program_is_not_shown_again).
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of a kernel over another's
                self._handle = self._register(self)
        self._left = _DORMANT_RUNS
        self.dormant = False

    def deactivate(self) -> None:
        self.dormant = True  # the kernel stays registered for now

    def take_away(self) -> None:  # the one below runs again
        self.dormant = True
        if self._handle is not None:
            self._handle.reset()
            self._handle, self._taken_away = None, self._handle  # kept: it may be what runs this

    def ran_dormant(self) -> None:
        """Count a dormant run; after ``_DORMANT_RUNS`` take the kernel away."""
        self._left -= 1
        # Don't wait: the lock's holder is registering kernels or taking them away at this moment.
        if self._left < 0 and self._handle is not None and self._lock.acquire(blocking=False):
            try:
                if self.dormant:
                    self.take_away()
            finally:
                self._lock.release()
