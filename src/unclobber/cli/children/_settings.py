"""Whether the children of this process are followed, and with what they are watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...session.session import Session


class Settings(NamedTuple):
    """What a child must know to be watched as its program is; plain values, which are sent to it."""

    folder: str
    """Where records are left; made by the first child that has one."""
    root: int
    """The id of the process that reports."""
    policy: str
    strict: bool
    fingerprint: float
    command: tuple[str, ...]
    told_beside: bool
    """Whether the report is text beside the program's messages, so that its stories need no tracebacks."""
    suppression: tuple[Any, ...] = ()
    """The values of a ``RunSuppression``."""


class Following:
    """Whether this process's children are followed, and the session that they inherit if it forks them."""

    def __init__(self) -> None:
        self.settings: Settings | None = None
        self.session: Session | None = None
        self.originals: tuple[Any, Any] | None = None


following = Following()
