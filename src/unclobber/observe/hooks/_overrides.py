"""Kernels in the place of torch's or the program's, which the dispatcher runs even without a listener.

Registering one takes a few microseconds, so those of a session that has ended are kept for the next. A call
of the program through one in between costs it some microseconds, too. After a few such calls the kernel
unregisters itself, and the next session registers it again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_DORMANT_RUNS = 32  # number of dormant runs that cost about as much as registering the kernel again


@dataclass(slots=True, eq=False)
class Activity:
    """The overrides' common state, so that entering a context in each step changes one object."""

    lock: threading.RLock  # held while one is registered or taken away
    active: bool = False  # whether overrides let their kernels see writes
    times: int = 0  # how often that began
    missing: dict[Override, None] = field(default_factory=dict)
    """Overrides to be registered when it begins again."""

    def begin(self) -> None:  # the kernels see writes from now on
        self.active = True
        self.times += 1
        if self.missing:
            self.register()

    def register(self) -> None:
        """Register the overrides that are missing."""
        # Only here: `catch_warnings` makes Python forget which of the program's warnings were shown
        # (test_a_warning_of_the_program_is_not_shown_again).
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a kernel over another's
            while self.missing:
                self.missing.popitem()[0].register()


_NEVER = Activity(threading.RLock())  # that of an override that was taken away


class Override:
    """A kernel that takes the place of another.

    Args:
        among: The state that it shares.
        register: Registers a kernel and returns its handle, with a ``reset()`` that unregisters it. The
            kernel reads whether ``activity`` is active, and reports runs while it is not.
    """

    __slots__ = ("_among", "_handle", "_left", "_register", "_taken_away", "_times", "activity")

    def __init__(self, among: Activity, register: Callable[[Override], Any]) -> None:
        """Make a dormant override; the class lists the arguments."""
        self.activity = _NEVER
        """Not active if the kernel only runs the one below. Taking the kernel away is not enough: under a
        dispatch mode torch runs the Python kernel that was registered last for an operation
        (test_a_custom_operation_under_a_mode)."""
        self._among = among
        self._register = register
        self._handle: Any = None
        self._taken_away: Any = None
        self._left = self._times = 0

    def enlist(self) -> None:  # `Activity.register` registers it
        if self._handle is None:
            self._among.missing[self] = None

    def register(self) -> None:
        self._handle = self._register(self)
        self.activity = self._among

    def take_away(self) -> None:  # the one below runs again
        self.activity = _NEVER
        self._among.missing.pop(self, None)
        if self._handle is not None:
            self._handle.reset()
            self._handle, self._taken_away = None, self._handle  # kept: it may be what runs this

    def ran_dormant(self) -> None:
        """Count a dormant run; after ``_DORMANT_RUNS`` take the kernel away until the next context."""
        among = self._among
        if self._times != among.times:
            self._times, self._left = among.times, _DORMANT_RUNS
        self._left -= 1
        # Don't wait: the lock's holder is registering kernels or taking them away at this moment.
        if self._left < 0 and self._handle is not None and among.lock.acquire(blocking=False):
            try:
                if not self.activity.active:
                    self.take_away()
                    self.enlist()
            finally:
                among.lock.release()
