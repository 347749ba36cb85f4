"""Delivery of a rendered report to the file or stream that the options name."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from typing import TextIO

from ..model import Report
from ..report import FORMATS, guard_lines, notice_lines, options_for
from ._output import OutputFile, send, usable, write_to_stderr
from ._verdict import unrepaired


@dataclass(frozen=True)
class Delivery:
    """A report's format and its destination; a standard stream if it has no file."""

    format: str
    file: OutputFile | None
    of_program: bool = True
    """Whether a program runs, which writes to the standard streams, too. Its text report then goes to
    stderr; all other reports go to stdout.
    """

    @property
    def on_stderr(self) -> bool:
        return self.of_program and self.format == "text" and self.file is None

    def deliver(self, report: Report, *, guarded: bool = False, fallback_code: int = 0) -> None:
        """Write the report to its file or stream.

        Args:
            guarded: Whether a text report starts with the lines on what guard did.
            fallback_code: The program's own exit code, kept by a `ReportError`.

        Raises:
            ReportError: It could not be written.
        """
        with contextlib.suppress(OSError, ValueError):  # its reader may have gone, or the program closed it
            sys.stdout.flush()  # what the program printed comes first
        if self.of_program and not self.on_stderr and self.file is None:
            self._hint()
        send(
            lambda stream: self._text(report, stream, guarded),
            self.file,
            text=self.format == "text",
            of_program=self.of_program,
            hint="The program itself has run to its end." if self.of_program else "",
            exit_code=fallback_code,
        )

    def _hint(self) -> None:
        stream = usable(sys.__stdout__, sys.stdout)
        # Annotations of GitHub are to stand among other lines.
        if stream is None or self.format == "github" or _is_empty(stream):
            return
        what = f"the {self.format} report follows the program's own output on standard output"
        write_to_stderr(f"unclobber: {what}; --output FILE keeps them apart\n")

    def _text(self, report: Report, stream: TextIO | None, guarded: bool) -> str:
        """Render the report. A text among the program's messages has the findings that guard did not repair,
        after the lines on guard; for a run without such findings, it has the notices."""
        if not self.on_stderr:
            return self._rendered(report, stream)
        left = unrepaired(report)
        columns = options_for(stream).width
        text = "".join(f"{line}\n" for line in guard_lines(report, columns) if guarded)
        if left:
            return text + self._rendered(replace(report, findings=left), stream)
        return text + "".join(f"{line}\n" for line in notice_lines(report, columns))

    def _rendered(self, report: Report, stream: TextIO | None) -> str:
        text = FORMATS[self.format](report, options_for(stream))
        return text if text.endswith("\n") or not text else f"{text}\n"


def _is_empty(stream: TextIO) -> bool:
    try:
        return stream.buffer.tell() == 0
    except (OSError, ValueError, AttributeError):  # a pipe or a terminal
        return False
