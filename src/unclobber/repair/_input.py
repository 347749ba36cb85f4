"""The script's standard input: each of its runs reads the bytes that were piped into the command."""

from __future__ import annotations

import io
import os
import stat


class Input(io.FileIO):
    """The standard input of one run.

    A pipe can be read once only. The first run that reads it copies it to a file, to its end, and later runs
    read the file; a script that never reads it leaves it alone, because it may be its shell's own. All reads
    are by ``readinto``.
    """

    read, readall = io.RawIOBase.read, io.RawIOBase.readall  # type: ignore[assignment]

    def __init__(self, descriptor: int, kept: str) -> None:
        """Put a file in the place of standard input: a pipe's copy, the command's own, or an empty one."""
        mode = 0 if descriptor < 0 else os.fstat(descriptor).st_mode
        own = f"/dev/fd/{descriptor}" if stat.S_ISREG(mode) else os.devnull
        again = kept if os.path.exists(kept) else own
        os.dup2(os.open(again, os.O_RDONLY), 0)
        super().__init__(0, closefd=False)
        self.is_read, self._pipe, self._kept = False, descriptor, kept
        self._waits = again == os.devnull and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
        self.is_given = self._waits or again != os.devnull

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read the next bytes, as ``io.RawIOBase`` says."""
        self.is_read = True
        if self._waits:
            with open(self._pipe, "rb", closefd=False) as pipe, open(self._kept, "wb") as file:
                file.write(pipe.read())
            os.dup2(os.open(self._kept, os.O_RDONLY), 0)
            self._waits = False
        return super().readinto(buffer)
