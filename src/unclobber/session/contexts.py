"""The contexts that open a session: ``watch``, ``guard``, and ``audit`` for one call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Self

from ..model import Finding, InplaceError, Report, UnclobberError
from ..report import error_of
from ..settings import Suppression
from .program import settings_here
from .session import Session


class Watching(ContextDecorator):
    """Context that opens a new session at each entry; usable as decorator and re-entrantly.

    Args:
        make: Called at each entry, because the settings may have changed
            (test_settings_that_change_while_it_runs). Returns a session that is not entered yet.
    """

    proving: ClassVar[bool] = False
    """Whether `fix` runs the program to prove an edit: its session sees what a ``watch`` of the program sees,
    which would refuse the run that gives the right gradients (test_a_program_that_watches_itself)."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self._make = make
        # By thread: one object may be entered in several at once (test_one_guard_object_in_several_threads).
        self._entered = threading.local()
        self._last: Session | None = None

    def _recreate_cm(self) -> Self:
        # A decorated function would get a copy, and the object's own `findings` would stay empty.
        return self

    def __enter__(self) -> Self:
        """Open a new session in this thread."""
        session = self._make()
        entered = not (Watching.proving and session.policy == "watch")
        if entered:
            session.__enter__()
        vars(self._entered).setdefault("sessions", []).append(session if entered else None)
        self._last = session
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the session. Raise torch's refusal again as ``InplaceError`` with its explanation."""
        sessions: list[Session | None] = getattr(self._entered, "sessions", [])
        # torch has a stack of hooks in each thread, and no thread can pop another's.
        if not sessions:
            raise UnclobberError(
                "this context was not entered in this thread: leave it in the thread that entered it, "
                "and close a generator that has entered it there"
            )
        session = sessions.pop()
        if session is None:
            return
        # Before the session's exit, which forgets the view writes that an explanation may need.
        try:
            finding = None if error is None else session.finding_for(error)
        finally:
            session.__exit__(kind, error, traceback)
        # An `InplaceError` has its explanation already, and the program's own errors have no finding.
        if finding is not None and not isinstance(error, InplaceError):
            raise error_of(finding) from error

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the last entry, oldest first, one for each three places; no suppressed ones."""
        return () if self._last is None else self._last.split_suppressed()[0]


class watch(Watching):  # noqa: N801  (a context manager that reads as a verb)
    """Refuse what torch refuses, and say which lines are to blame.

    Inside, backward raises ``InplaceError`` exactly where plain torch raises its own error about a
    variable that "has been modified by an inplace operation" (``SavedVariable::unpack`` in
    torch/csrc/autograd/saved_variable.cpp): the same condition, with the line
    that saved the tensor, the lines that overwrote it and the backward that needed it. Writes that
    torch doesn't see warn with ``SilentWriteWarning``, but for those that ``# unclobber: ignore`` or the
    settings of the file's project suppress.

    Args:
        strict: Raise on silent writes, too. None: as ``[tool.unclobber]`` says, else no.
        fingerprint: Share of saved tensors, 0 to 1, whose content is hashed when they are saved and
            compared when they are needed: finds writes that reach memory past the dispatcher. None: as
            ``[tool.unclobber]`` says, else 0.
    Raises:
        InplaceError: from backward, or from the line that torch refuses.
        UnclobberError: on entering, where the settings in pyproject.toml are wrong; on leaving, in another
            thread than entered it.
        ValueError: where ``fingerprint`` is no share.
    Example:
        >>> w = torch.ones(3, requires_grad=True)
        >>> with unclobber.watch():
        ...     y = w.exp()
        ...     y += 1
        ...     y.sum().backward()
        Traceback (most recent call last):
        ...
        unclobber.InplaceError: one of the variables needed for gradient computation ...
    """

    def __init__(self, strict: bool | None = None, *, fingerprint: float | None = None) -> None:
        if fingerprint is not None and not (isinstance(fingerprint, int | float) and 0 <= fingerprint <= 1):
            raise ValueError(f"fingerprint is a share of saved tensors, from 0 to 1, and not {fingerprint!r}")
        super().__init__(
            partial(Session.by_settings, None, guard=False, strict=strict, fingerprint=fingerprint)
        )


class guard(Watching):  # noqa: N801
    """Give in-place programs the gradients of the program as written.

    Each derivative uses the values that its operation saw, whatever was written over them later.
    Before a write hits memory that live saved tensors hold, the smaller of the two is copied.

    Raises:
        InplaceError: from backward, where a value can't be had back: a write that happened outside
            the context or out of sight, or a layout without storage of its own (sparse, nested).
        UnclobberError: on leaving, in another thread than entered it.
    Example:
        >>> w = torch.ones(3, requires_grad=True)
        >>> with unclobber.guard() as g:
        ...     y = w.exp()
        ...     y += 1
        ...     y.sum().backward()
        >>> torch.equal(w.grad, w.detach().exp()), g.peak_bytes
        (True, 12)
    """

    def __init__(self) -> None:
        super().__init__(lambda: Session("guard", suppression=Suppression(settings_here())))

    @property
    def kept_bytes(self) -> int:
        """The bytes of overwritten values that are kept now; 0 once backward has freed the graph."""
        return 0 if self._last is None else self._last.ledger.account.kept

    @property
    def peak_bytes(self) -> int:
        """The most bytes of overwritten values that were kept at one time."""
        return 0 if self._last is None else self._last.ledger.account.peak

    @property
    def conflicts(self) -> tuple[Finding, ...]:
        """The conflicts that were repaired, as findings; one for the same lines."""
        return self.findings


def audit(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    """Run ``step(*args, **kwargs)`` once and report what it overwrites; never raises for a conflict.

    A saved tensor that was overwritten is noted, and backward gets the value that was saved, as in ``guard``.

    Args:
        step: Builds a graph and calls backward.
        args: For ``step``.
        kwargs: For ``step``.
    Returns:
        The findings with totals and, in ``bytes_by_line``, what each line keeps for backward. What
        ``step`` returns is dropped.
    Raises:
        Exception: whatever ``step`` itself raises for reasons of its own.
        UnclobberError: the settings in pyproject.toml are wrong.
    Example:
        >>> def step():
        ...     w = torch.ones(3, requires_grad=True)
        ...     y = w.exp()
        ...     y += 1
        ...     y.sum().backward()
        >>> [finding.code for finding in unclobber.audit(step).findings]
        ['UC101']
    """
    with Session("audit", warn=False, suppression=Suppression(settings_here())) as session:
        try:
            step(*args, **kwargs)
        except RuntimeError as error:
            if session.finding_for(error) is None:
                raise
    return session.report()
