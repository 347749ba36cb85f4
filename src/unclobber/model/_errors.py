"""What we raise and warn with; every exception carries its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._finding import Finding


class UnclobberError(Exception):
    """Something about the use of unclobber itself is wrong; ``str()`` says what to do.

    ``exit_code`` is what the command exits with: 2, usage or internal error.
    """

    __module__ = "unclobber"
    exit_code = 2


class InplaceError(RuntimeError):
    """An in-place operation that autograd can't allow.

    ``str()`` starts with torch's own sentence, so that handlers and searches written for it still
    match, and goes on with the story; ``finding`` is the data.
    """

    __module__ = "unclobber"  # the name that a user sees is the name that a user can import

    def __init__(self, message: str, finding: Finding) -> None:
        super().__init__(message, finding)  # both in ``args``: survives pickling between processes
        self.finding = finding

    def __str__(self) -> str:
        return str(self.args[0])


class SilentWriteWarning(UserWarning):
    """A saved tensor was overwritten in a way that torch doesn't see: gradients are wrong.

    The fault is in the program that is watched. ``watch(strict=True)`` raises instead.
    """

    __module__ = "unclobber"
