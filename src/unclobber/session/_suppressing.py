"""A session's use of the suppressions that the program's author has written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ..model import Finding, SuppressedBy
from ..settings import Suppression

T = TypeVar("T")

_MOST_RAISED = 1000
"""Limit of remembered errors, because a program that catches them all may go on for ever."""


class GuardedCall(Protocol):
    """Interface of ``Session._guarded_call``: return ``look()``, or note its error, return ``otherwise``."""

    def __call__(self, what: str, look: Callable[[], T], otherwise: T) -> T: ...


class Suppressing:
    """A suppression as one session sees it.

    An internal error in it suppresses nothing, and a finding that was raised stays reported.

    Args:
        suppression: The comments, settings and baseline; None to suppress nothing.
        guarded_call: Calls the suppression, and notes internal errors for the report.
    """

    def __init__(self, suppression: Suppression | None, guarded_call: GuardedCall) -> None:
        self._suppression = suppression
        self._guarded_call = guarded_call
        self._raised: dict[int, Finding] = {}
        """Findings that were raised although torch is silent, by identity."""

    def forget(self) -> None:
        """Forget the raised findings in a forked child, because they are the parent's."""
        self._raised.clear()

    def raised(self, finding: Finding) -> None:
        """Remember a finding that is about to be raised, so that it is reported even if suppressed."""
        if finding.is_silent and len(self._raised) < _MOST_RAISED:
            self._raised[id(finding)] = finding  # keeps the finding, so its identity is not reused

    def noted(self, finding: Finding) -> Finding:
        """Return the finding, with a note if the author tried to suppress it in vain."""
        return self._look(lambda suppression: suppression.noted(finding), finding)

    def lets_pass(self, finding: Finding) -> bool:
        """Return whether a finding neither stops nor warns the program."""
        return self._look(lambda suppression: suppression.lets_pass(finding), False)

    def by(self, finding: Finding) -> SuppressedBy | None:
        """Return the reason that suppresses a finding; None if it is reported."""
        if id(finding) in self._raised:
            return None
        nothing: SuppressedBy | None = None
        return self._look(lambda suppression: suppression.by(finding), nothing)

    def _look(self, look: Callable[[Suppression], T], otherwise: T) -> T:
        suppression = self._suppression
        if suppression is None:
            return otherwise
        # An error costs the suppression, never the finding
        # (test_a_comment_that_can_not_be_read_suppresses_nothing).
        return self._guarded_call("comments could not be read", lambda: look(suppression), otherwise)
