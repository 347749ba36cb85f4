"""Files that a run reads and writes, among them those that an earlier run of the same search has written.

Every run starts the program afresh, but in the same folder. A program that resumes from its own checkpoint
does not do the same thing twice, and no seed would change that. tests/repair/test_fix.py has such a script.
Python's audit events show reads; a library's reads below Python stay unseen.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping
from typing import Any

from ._copies import Copy, marks

_MOST_BYTES = 64 * 2**20  # size in bytes above which files are compared by size and time alone
_CODE = (".py", ".pyc")
_UNSEEN = ("os.fork", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")
"""Audit events after which others may read for the program."""


class Files:
    """Audit hook that records effects that show nowhere else: files that the program reads as an earlier run
    left them, and files that it opens for writing.

    Args:
        copy: The copied folders.
        own: Start of the paths of unclobber's own files.
        since: Start of the search, as ``time.time_ns`` counts; a file written between then and now is an
            earlier run's. None: reads are not recorded.
        all_written: Whether to look for files in the copies that other processes write.
    """

    def __init__(self, copy: Copy, own: str, since: int | None, *, all_written: bool) -> None:
        """List the files that are there now, if those that change are wanted."""
        self._copy = copy
        self._own = own
        self._since, self._until = since, time.time_ns()
        self._before = {path: marks(path) for path in copy.files()} if all_written else {}
        self._opened: set[str] = set()
        self.digests: dict[str, str] = {}
        """Absolute path of a file that an earlier run left to a digest of its content at its first read."""
        self.reads: set[str] | None = set()
        """The user's own paths of the files that it reads; None if others may read for it."""
        self.off = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record a file that is opened."""
        if self.off:
            return
        if event in _UNSEEN:
            self.reads = None
        elif event == "open" and isinstance(arguments[0], (str, bytes)) and isinstance(arguments[2], int):
            # The program's own call will fail in the same way.
            with contextlib.suppress(OSError, ValueError):
                self._opens(os.path.abspath(os.fsdecode(arguments[0])), arguments[2])

    def _opens(self, path: str, flags: int) -> None:
        """Record a file that is opened: as written, or with its digest if an earlier run left it."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._opened.add(path)
        if self.reads is not None and not flags & os.O_WRONLY:
            self.reads.add(self._copy.here(path))
        if self._since is None or flags & os.O_WRONLY or path in self.digests:
            return
        if path.endswith(_CODE) or not os.path.isfile(path):
            return
        if self._since <= os.stat(path).st_mtime_ns < self._until:
            self.digests[path] = ""  # known from now on, because a digest opens the file, too
            self.digests[path] = digest_of(path)

    def written(self) -> list[str]:
        """Return the files that are new, changed or gone; no files of unclobber's and no devices."""
        new = [path for path in self._copy.files() if self._before.get(path) != marks(path)]
        gone = [path for path in self._before if not os.path.exists(path)]
        apart = ("/dev/", "/proc/", self._own)
        outside = [path for path in self._opened if not path.startswith(apart) and os.path.isfile(path)]
        return sorted({*new, *gone, *outside})


def digest_of(path: str) -> str:
    """Return a digest of a file's content, or of its size and time if large; empty if unreadable."""
    try:
        facts = os.stat(path)
        if facts.st_size > _MOST_BYTES:
            return f"{facts.st_size} {facts.st_mtime_ns}"
        return digest(path) if os.path.isfile(path) else ""
    except OSError:
        return ""


def digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blame(earlier: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return a clause on the files which the later run read as another run had left them, or nothing."""
    changed = [os.path.relpath(path) for path in other if earlier.get(path) != other[path]]
    if not changed:
        return ""
    names = ", ".join(f"`{name}`" for name in changed[:3]) + (" and others" if len(changed) > 3 else "")
    return (
        f"it reads {names} as an earlier run of it has left {'it' if len(changed) == 1 else 'them'}; "
        "let each run begin afresh"
    )
