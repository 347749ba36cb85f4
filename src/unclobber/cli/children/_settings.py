"""Settings that followed children are watched with, and the state of following."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...session import Session


class Settings(NamedTuple):
    """Settings of a child's session. Plain values, because they are sent to it as source text."""

    folder: str  # the run's directory; the first child with a record creates it
    root: int  # the id of the process that reports
    command: tuple[str, ...]
    text_on_stderr: bool
    """Whether the report is text among the program's messages on stderr, so that a child's finding needs
    no traceback.
    """
    suppression: bytes  # a pickled ``RunSuppression``, whose classes most children never need


class Following:
    """State of following in this process, and the session that forked children inherit."""

    settings: Settings | None = None
    session: Session | None = None
    originals: tuple[Any, Any] | None = None


following = Following()
