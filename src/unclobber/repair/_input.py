"""The script's standard input: each of its runs reads the bytes that were piped into the command."""

from __future__ import annotations

import io
import os
import stat


class Input(io.RawIOBase):
    """The standard input of one run.

    A pipe can be read once only. The first run that reads it copies it to a file, to its end, and later runs
    read the file; a script that never reads it leaves it alone, because it may be its shell's own.
    """

    def __init__(self, descriptor: int, kept: str) -> None:
        """Put a file in the place of standard input: the command's own, a pipe's copy, or an empty one."""
        mode = 0 if descriptor < 0 else os.fstat(descriptor).st_mode
        own = f"/dev/fd/{descriptor}" if stat.S_ISREG(mode) else os.devnull
        self.is_read, self._pipe, self._kept = False, descriptor, kept
        self._waits = (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and not os.path.exists(kept)
        self._put(kept if os.path.exists(kept) else own)
        self.is_given = self._waits or os.path.exists(kept) or stat.S_ISREG(mode)

    def _put(self, path: str) -> None:
        os.dup2(os.open(path, os.O_RDONLY), 0)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read the next bytes, as ``io.RawIOBase`` says."""
        self.is_read = True
        if self._waits:
            with open(self._pipe, "rb", closefd=False) as pipe, open(self._kept, "wb") as file:
                file.write(pipe.read())
            self._waits = False
            self._put(self._kept)
        return os.readv(0, [buffer])
