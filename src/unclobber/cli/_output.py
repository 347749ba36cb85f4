"""Destinations of a report: a file that is never half-written, or a stream."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass
from typing import TextIO

from ._errors import UsageError


@dataclass(frozen=True)
class OutputFile:
    """The file of a report. Its path is absolute because the program may change its directory."""

    path: str

    @classmethod
    def at(cls, given: str, option: str = "--output") -> OutputFile:
        """Check that `given` can be written, before the program has cost any time.

        Raises:
            UsageError: The path is a directory or can't be written.
        """
        path = os.path.realpath(given)
        file = cls(path)
        try:
            if os.path.isdir(path):
                raise IsADirectoryError(21, "it is a directory")
            if os.path.exists(path) and not os.access(path, os.W_OK):
                raise PermissionError(13, "permission denied")
            if not file._is_special():
                # Tried for real, because `os.access` on the folder misses such as a name that is too long.
                os.close(os.open(file._partial(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                os.unlink(file._partial())
        except OSError as error:
            what = "the report" if option == "--output" else "the baseline"
            raise UsageError(
                f"can't write {what} to {given}: {(error.strerror or str(error)).lower()}",
                f"Give {option} a file in a directory that exists and that you may write to.",
            ) from None
        return file

    def write(self, text: str) -> None:
        """Write the whole text or nothing: readers see the old file until the new one is complete."""
        if self._is_special():
            with open(self.path, "wb") as stream:
                stream.write(_document(text))
            return
        try:
            with open(self._partial(), "wb") as stream:
                stream.write(_document(text))
            os.replace(self._partial(), self.path)
        # Ctrl-C must leave no partial file either.
        except BaseException:
            if os.path.exists(self._partial()):
                os.unlink(self._partial())
            raise

    def _partial(self) -> str:
        # In the same folder, because `os.replace` works within one file system only.
        directory, name = os.path.split(self.path)
        return os.path.join(directory, f".{name}.{os.getpid()}.part")

    def _is_special(self) -> bool:  # `os.replace` would destroy a device or a pipe
        try:
            return not stat.S_ISREG(os.stat(self.path).st_mode)
        except OSError:
            return False


def write_text(stream: TextIO, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def write_document(stream: TextIO, text: str) -> None:
    """Write text for a program, such as JSON, as UTF-8 whatever the terminal's encoding is."""
    stream.flush()
    # `io.StringIO` and notebooks' streams have no buffer.
    if (binary := getattr(stream, "buffer", None)) is None:
        write_text(stream, text)
    else:
        binary.write(_document(text))
        binary.flush()


def json_text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def usable(stream: TextIO | None, fallback: TextIO | None) -> TextIO | None:
    """Return `stream`, or `fallback` if the program closed `stream` or set it to None."""
    return next((s for s in (stream, fallback) if s is not None and not getattr(s, "closed", False)), None)


def write_to_stderr(text: str) -> None:
    if (stream := usable(sys.stderr, sys.__stderr__)) is not None:
        write_text(stream, text)


def _document(text: str) -> bytes:
    # A path that is no UTF-8 holds lone surrogates, and JSON writes their escapes.
    return text.encode("utf-8", "backslashreplace")
