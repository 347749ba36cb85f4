"""Messages that the library prints by itself, on standard error."""

from __future__ import annotations

import sys

from ..report import guard_lines
from ..session import Session


def say(text: str) -> None:
    """Write lines for a person to stderr; do nothing if the program has closed it."""
    stream = sys.stderr
    if stream is None or getattr(stream, "closed", False):
        return
    # A console's encoding may lack characters of the program's source, which are then escaped.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def say_restored(session: Session) -> None:
    """Print how many values a guarded session gave back, and for which lines."""
    say("\n".join(guard_lines(session.report())))
