"""Files that a run reads although an earlier run of the same search has written them.

Every run starts the program afresh, but in the same folder. A program that resumes from its own checkpoint
does not do the same thing twice, and no seed would change that. tests/repair/test_fix.py has such a script.
Python's audit events show reads; a library's reads below Python stay unseen.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from typing import Any

_MOST_BYTES = 64 * 2**20
"""Size in bytes above which files are compared by size and time alone."""
_CODE = (".py", ".pyc")


class Reads:
    """Audit hook that records the program's reads, from ``sys.addaudithook`` to the end of the process.

    Args:
        since: Start of the search, as ``time.time_ns`` counts; a file written between then and now is an
            earlier run's.
    """

    def __init__(self, since: int) -> None:
        self.since = since
        self.until = time.time_ns()
        self.digests: dict[str, str] = {}
        """Absolute path to a digest of the file's content at its first read."""
        self._busy = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record the file of an ``open`` event, unless it is opened for writing only."""
        if event != "open" or self._busy:
            return
        self._busy = True  # looking at a file raises the event, too
        try:
            path, _, flags = arguments
            if isinstance(path, (str, bytes)) and isinstance(flags, int) and not flags & os.O_WRONLY:
                self._note(os.path.abspath(os.fsdecode(path)))
        except (OSError, ValueError):
            pass  # the program's own call will fail in the same way
        finally:
            self._busy = False

    def _note(self, path: str) -> None:
        if path in self.digests or path.endswith(_CODE) or not os.path.isfile(path):
            return
        facts = os.stat(path)
        if self.since <= facts.st_mtime_ns < self.until:
            self.digests[path] = _digest(path, facts)


def _digest(path: str, facts: os.stat_result) -> str:
    if facts.st_size > _MOST_BYTES:
        return f"{facts.st_size} {facts.st_mtime_ns}"
    return digest(path)


def digest(path: str) -> str:
    """Return a digest of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blame(earlier: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return a clause that names the files which the later run read as another run had left them; empty if
    there are none."""
    changed = [os.path.relpath(path) for path in other if earlier.get(path) != other[path]]
    if not changed:
        return ""
    names = ", ".join(f"`{name}`" for name in changed[:3]) + (" and others" if len(changed) > 3 else "")
    return (
        f"it reads {names} as an earlier run of it has left {'it' if len(changed) == 1 else 'them'}; "
        "let each run begin afresh"
    )
