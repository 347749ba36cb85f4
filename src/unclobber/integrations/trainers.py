"""Watching what a trainer does in one of its methods, for the trainers that hold a callback of ours.

A trainer's callback hooks can't do it alone. Hugging Face calls none when training fails. Lightning calls
``on_exception``, but in the midst of cleaning up, so that nothing can be raised from it, and not at all
where another callback's ``on_exception`` has failed. So the method itself, ``fit`` or ``train``, is wrapped
for as long as a callback of ours lives. A trainer without one runs as before.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Literal, get_args

import torch

from ..model import Finding, UnclobberError
from ..session.contexts import Watching
from ..session.entered import settings_here
from ..session.session import Session
from ..settings import Suppression
from ._saying import say_restored

Mode = Literal["watch", "guard", "strict"]


class Training(Watching):
    """The context of one training."""

    def __init__(self, mode: Mode | None, fingerprint: float | None) -> None:
        super().__init__()
        self._mode = mode
        self._fingerprint = fingerprint
        self.running = False
        self.by_hooks = False
        """Whether the trainer's hooks began it, and have to end it."""

    def _make(self) -> Session:
        settings = settings_here()
        mode = self._mode or settings.mode
        return Session(
            "guard" if mode == "guard" else "watch",
            strict=mode == "strict",
            fingerprint=settings.fingerprint if self._fingerprint is None else self._fingerprint,
            suppression=Suppression(settings),
        )

    @property
    def peak_bytes(self) -> int:
        return 0 if self._last is None else self._last.peak_bytes

    def say_restored(self) -> None:
        """Say at the end of a guarded training what was given back; of several ranks the first says it."""
        if self._last is not None and self._last.policy == "guard" and _is_first_rank():
            say_restored(self._last)


def _is_first_rank() -> bool:
    ranks = torch.distributed
    return not (ranks.is_available() and ranks.is_initialized()) or ranks.get_rank() == 0


class WatchesTraining:
    """What the callbacks for the different trainers share."""

    _training: Training | None = None

    def __init__(self, mode: Mode | None = None, *, fingerprint: float | None = None) -> None:
        if mode is not None and mode not in get_args(Mode):
            raise UnclobberError(f"mode is {mode!r}: the modes are {', '.join(get_args(Mode))}")
        self.mode = mode
        self.fingerprint = fingerprint

    def __getstate__(self) -> dict[str, Any]:
        """Settings alone, for copies and other processes: a training belongs to the one that ran it."""
        return {name: value for name, value in vars(self).items() if name != "_training"}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found in the last training, oldest first; the same three places once."""
        return () if self._training is None else self._training.findings

    @property
    def peak_bytes(self) -> int:
        """The most bytes of overwritten values that ``guard`` kept at a time in the last training."""
        return 0 if self._training is None else self._training.peak_bytes

    @property
    def _running(self) -> bool:
        return self._training is not None and self._training.running

    def _begin(self, *, by_hooks: bool = False) -> None:
        training = Training(self.mode, self.fingerprint)
        training.__enter__()
        training.running, training.by_hooks = True, by_hooks
        self._training = training

    def _end(self, *error: Any) -> None:
        if self._training is not None and self._training.running:
            self._training.running = False
            try:
                self._training.__exit__(*error)
            finally:
                self._training.say_restored()


class Wrapped:
    """A method of a trainer class, wrapped while there are callbacks.

    Args:
        owner: The class that defines the method.
        name: The method.
        callbacks_of: All callbacks of one trainer, ours among them.
    """

    def __init__(self, owner: type, name: str, callbacks_of: Callable[[Any], Iterable[Any]]) -> None:
        self._owner = owner
        self._name = name
        self._callbacks_of = callbacks_of
        self._original: Any = None
        self._wrapper: Any = None
        self._alive = 0
        # Re-entrant: a garbage collection that begins while it is held may end another callback's life.
        self._lock = threading.RLock()

    def serve(self, callback: WatchesTraining) -> None:
        """Wrap the method for as long as ``callback`` lives."""
        with self._lock:
            self._alive += 1
            method = vars(self._owner)[self._name]
            if method is not self._wrapper:
                self._original, self._wrapper = method, self._wrap(method)
                setattr(self._owner, self._name, self._wrapper)
        weakref.finalize(callback, self._release).atexit = False

    def _release(self) -> None:
        with self._lock:
            self._alive -= 1
            # Whoever has wrapped the method after us has ours inside, which then does nothing.
            if not self._alive and vars(self._owner)[self._name] is self._wrapper:
                setattr(self._owner, self._name, self._original)
                self._original = self._wrapper = None

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                for callback in self._callbacks_of(trainer):
                    if isinstance(callback, WatchesTraining) and not callback._running:
                        callback._begin()
                        stack.push(callback._end)
                return original(trainer, *args, **kwargs)

        return method
