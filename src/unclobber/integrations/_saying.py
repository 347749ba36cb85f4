"""What the library says by itself, on standard error."""

from __future__ import annotations

import sys

from ..report import guard_line, guard_places
from ..session.session import Session


def say(text: str) -> None:
    """Write lines for a person; nothing where the program has closed the stream."""
    stream = sys.stderr
    if stream is None or getattr(stream, "closed", False):
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def say_restored(session: Session) -> None:
    """What a guarded session gave back, and for which lines."""
    report = session.report()
    say("\n".join([guard_line(report), *guard_places(report)]))
