"""Watching of one method of a trainer class, for the trainers that hold one of unclobber's callbacks.

A trainer's callback hooks can't do it alone. Hugging Face calls none when training fails. Lightning calls
``on_exception``, but in the midst of cleaning up, so that nothing can be raised from it. After a failure of
another callback's ``on_exception`` it calls no more. So the method itself, ``fit`` or ``train``, is wrapped
for as long as such a callback lives. A trainer without one runs as before.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, get_args

import torch

from ..model import Finding, InplaceError, UnclobberError
from ..session import Session, Watching
from ._saying import say_restored, show_without_traceback

Mode = Literal["watch", "guard", "strict"]


class Training(Watching):
    """The context of one training."""

    def __init__(self, mode: Mode | None, fingerprint: float | None) -> None:
        """Let the project's settings decide what the callback leaves open."""
        guard, strict = (None if mode is None else mode == name for name in ("guard", "strict"))
        super().__init__(
            functools.partial(Session.by_settings, None, guard=guard, strict=strict, fingerprint=fingerprint)
        )
        self.running = False
        self.by_hooks = False  # whether the trainer's hooks began this training, and have to end it

    @property
    def session(self) -> Session | None:
        return self._last


def _is_first_rank() -> bool:
    ranks = torch.distributed
    return not (ranks.is_available() and ranks.is_initialized()) or ranks.get_rank() == 0


CallbacksOf = Callable[[Any], Iterable[Any]]  # returns all callbacks of a trainer, other libraries' too


class WatchesTraining:
    """Base of the callbacks that watch a training, for each kind of trainer."""

    _training: Training | None = None
    _methods: ClassVar[tuple[Wrapped, ...]] = ()

    def __init_subclass__(cls, *, wraps: Iterable[tuple[type, str, CallbacksOf]] = ()) -> None:
        """Wrap these methods of trainers, each given by its class and name, while there are callbacks."""
        super().__init_subclass__()
        cls._methods += tuple(Wrapped(*method) for method in wraps)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # copies and unpickled callbacks come by here, too
        callback = super().__new__(cls)
        for method in cls._methods:
            method.serve(callback)
        return callback

    def __init__(self, mode: Mode | None = None, *, fingerprint: float | None = None) -> None:
        if mode is not None and mode not in get_args(Mode):
            raise UnclobberError(f"mode is {mode!r}: the modes are {', '.join(get_args(Mode))}")
        self.mode = mode
        self.fingerprint = fingerprint

    def __getstate__(self) -> dict[str, Any]:  # a training belongs to the object that ran it
        return {name: value for name, value in vars(self).items() if name != "_training"}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the last training, oldest first; findings at the same three places count once."""
        return () if self._training is None else self._training.findings

    @property
    def peak_bytes(self) -> int:
        """Largest number of bytes of old values that ``guard`` kept at one time in the last training."""
        session = self._training and self._training.session
        return session.ledger.account.peak if session else 0

    @property
    def _running(self) -> bool:
        return self._training is not None and self._training.running

    def _begin(self, *, by_hooks: bool = False) -> None:
        training = Training(self.mode, self.fingerprint)
        training.__enter__()
        training.running, training.by_hooks = True, by_hooks
        self._training = training

    def _end(self, *error: Any) -> None:
        """End the running training, if there is one. The first of several ranks prints what it restored."""
        training = self._training
        if training is not None and training.running:
            # First, so that a failing exit doesn't end it twice.
            training.running = False
            try:
                training.__exit__(*error)
            finally:
                if training.session and training.session.policy == "guard" and _is_first_rank():
                    say_restored(training.session)


@dataclass(eq=False)
class Wrapped:
    """A method of a trainer class, wrapped while there are callbacks: from the first `serve` on."""

    _owner: type  # the class that defines the method
    _name: str
    _callbacks_of: CallbacksOf
    _original: Any = None
    _wrapper: Any = None
    _alive: int = 0
    # Re-entrant, because a garbage collection that starts while it is held may finalize another callback.
    _lock: threading.RLock = field(default_factory=threading.RLock)

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
        """Give the method back once the last callback is gone."""
        with self._lock:
            self._alive -= 1
            # A library that wrapped the method later calls this wrapper, which then finds no callback and
            # does nothing (test_wrapping.py, test_somebody_wraps_it_after_us).
            if not self._alive and vars(self._owner)[self._name] is self._wrapper:
                setattr(self._owner, self._name, self._original)
                self._original = self._wrapper = None

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method with a session around it for each callback that doesn't run yet."""

        @functools.wraps(original)
        def method(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            """Run the trainer's method in the sessions of its callbacks."""
            watching = [c for c in self._callbacks_of(trainer) if isinstance(c, WatchesTraining)]
            try:
                # A stack, because several callbacks' sessions end in the opposite order.
                with ExitStack() as stack:
                    for callback in watching:
                        if not callback._running:
                            callback._begin()
                            stack.push(callback._end)
                    return original(trainer, *args, **kwargs)
            except InplaceError as error:
                # The trainer's own frames, some 80 lines, would push the report off the screen.
                show_without_traceback(error, [f for callback in watching for f in callback.findings])
                raise

        return method
