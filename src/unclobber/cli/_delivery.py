"""Delivery of what a command has to say to the file or stream that the options name."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO

from ..model import Finding, Report
from ..report import FORMATS, guard_lines, notice_lines, options_for
from ._errors import ReportError
from ._output import OutputFile, usable, write_document, write_text, write_to_stderr


@dataclass(frozen=True)
class Delivery:
    """A format and a destination; a standard stream if there is no file."""

    format: str
    file: OutputFile | None
    of_program: bool = True
    """Whether a program runs, which writes to the standard streams, too. A text then goes to stderr; all else
    goes to stdout."""

    @property
    def on_stderr(self) -> bool:
        return self.of_program and self.format == "text" and self.file is None

    def deliver(self, report: Report, *, guarded: bool = False, fallback_code: int = 0) -> None:
        """Write the report to its file or stream.

        Args:
            guarded: Whether a text report starts with the lines on what guard did.
            fallback_code: As for `send`.
        """
        with contextlib.suppress(OSError, ValueError):  # its reader may have gone, or the program closed it
            sys.stdout.flush()  # what the program printed comes first
        if self.of_program and not self.on_stderr and self.file is None:
            self._hint()
        hint = "The program itself has run to its end." if self.of_program else ""
        self.send(lambda stream: self._text(report, stream, guarded), hint, fallback_code)

    def send(self, render: Callable[[TextIO | None], str], hint: str = "", exit_code: int = 0) -> None:
        """Write what a command has to say to its file, or to a standard stream.

        Args:
            render: Returns the text for a stream; for a file it is called with None.
            hint: What a `ReportError` says next.
            exit_code: The program's own exit code, kept by a `ReportError`.

        Raises:
            ReportError: It could not be written.
        """
        is_text = self.format == "text"  # for a person; a document for programs is UTF-8 on any stream
        # The program may have redirected `sys.stdout` for good; without a program, a caller may have.
        streams = (sys.__stdout__, sys.stdout) if self.of_program else (sys.stdout, sys.__stdout__)
        stream = usable(sys.stderr, sys.__stderr__) if self.of_program and is_text else usable(*streams)
        try:
            if self.file is not None:
                self.file.write(render(None))
            elif stream is not None:
                (write_text if is_text else write_document)(stream, render(stream))
        # A reader such as `head` may leave early: `_main.main` then ends quietly with exit code 1.
        except BrokenPipeError:
            raise
        except OSError as error:
            said = f"the report could not be written: {error}"
            raise ReportError(said, hint, exit_code=exit_code) from error

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


def unrepaired(report: Report) -> tuple[Finding, ...]:  # those leave a gradient wrong or missing
    return tuple(finding for finding in report.findings if not finding.repaired)


def _is_empty(stream: TextIO) -> bool:
    try:
        return stream.buffer.tell() == 0
    except (OSError, ValueError, AttributeError):  # a pipe or a terminal
        return False
