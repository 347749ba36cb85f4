"""What a session does with findings that their author has said not to tell of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ..model import Finding, SuppressedBy
from ..settings import Suppression, can_be_suppressed

T = TypeVar("T")

_MOST_RAISED = 1000
"""As many as a session keeps findings; a program that catches them all goes on for ever."""


class Asked(Protocol):
    """``Session._asked``: what a look gives; where it fails, the report says so."""

    def __call__(self, what: str, look: Callable[[], T], otherwise: T) -> T: ...


class Suppressing:
    """A suppression as one session sees it: a fault in it suppresses nothing, nor does it take back an error.

    Args:
        suppression: None where nobody is asked.
        asked: Where faults are named.
    """

    def __init__(self, suppression: Suppression | None, asked: Asked) -> None:
        self._suppression = suppression
        self._asked = asked
        self._raised: dict[int, Finding] = {}
        """Findings that were raised although torch is silent, by identity."""

    def forget(self) -> None:
        """The findings so far are another process's."""
        self._raised.clear()

    def raised(self, finding: Finding) -> None:
        """A finding is about to be raised, so it is told."""
        if can_be_suppressed(finding) and len(self._raised) < _MOST_RAISED:
            self._raised[id(finding)] = finding

    def noted(self, finding: Finding) -> Finding:
        """The finding, with a note where somebody tries to suppress what can't be."""
        return self._look(lambda suppression: suppression.noted(finding), finding)

    def lets_pass(self, finding: Finding) -> bool:
        """Whether nobody is to be stopped or warned."""
        return self._look(lambda suppression: suppression.lets_pass(finding), False)

    def by(self, finding: Finding) -> SuppressedBy | None:
        """What suppresses a finding; None where it is told."""
        if id(finding) in self._raised:
            return None
        nothing: SuppressedBy | None = None
        return self._look(lambda suppression: suppression.by(finding), nothing)

    def _look(self, look: Callable[[Suppression], T], otherwise: T) -> T:
        suppression = self._suppression
        if suppression is None:
            return otherwise
        return self._asked("comments could not be read", lambda: look(suppression), otherwise)
