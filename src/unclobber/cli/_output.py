"""Destinations of a report: a file that is never half-written, or a stream."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from ._errors import ReportError, UsageError


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
            if file._is_special():
                if not os.access(path, os.W_OK):
                    raise PermissionError(13, "permission denied")
            else:
                if os.path.exists(path) and not os.access(path, os.W_OK):
                    raise PermissionError(13, "permission denied")
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


def send(
    render: Callable[[TextIO | None], str],
    file: OutputFile | None,
    *,
    text: bool,
    of_program: bool,
    hint: str = "",
    exit_code: int = 0,
) -> None:
    """Write what a command has to say to its file, or to a standard stream.

    Args:
        render: Returns the text for a stream; for a file it is called with None.
        file: The file of ``--output``; None for a standard stream.
        text: Whether it is for a person. A document for programs is UTF-8, whatever the stream's encoding.
        of_program: Whether a program has run, which writes to the standard streams, too. A text then goes to
            stderr; all else goes to stdout.
        hint: What a `ReportError` says next.
        exit_code: The program's own exit code, kept by a `ReportError`.

    Raises:
        ReportError: It could not be written.
    """
    # The program may have redirected `sys.stdout` for good; without a program, a caller may have.
    streams = (sys.__stdout__, sys.stdout) if of_program else (sys.stdout, sys.__stdout__)
    stream = usable(sys.stderr, sys.__stderr__) if of_program and text else usable(*streams)
    try:
        if file is not None:
            file.write(render(None))
        elif stream is not None:
            (write_text if text else write_document)(stream, render(stream))
    # A reader such as `head` may leave early: `_main.main` then ends quietly with exit code 1.
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ReportError(f"the report could not be written: {error}", hint, exit_code=exit_code) from error


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


def usable(stream: TextIO | None, fallback: TextIO | None) -> TextIO | None:
    """Return `stream`, or `fallback` if the program closed `stream` or set it to None."""
    return next((s for s in (stream, fallback) if s is not None and not getattr(s, "closed", False)), None)


def write_to_stderr(text: str) -> None:
    if (stream := usable(sys.stderr, sys.__stderr__)) is not None:
        write_text(stream, text)


def _document(text: str) -> bytes:
    # A path that is no UTF-8 holds lone surrogates, and JSON writes their escapes.
    return text.encode("utf-8", "backslashreplace")
