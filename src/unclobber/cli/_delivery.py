"""Render a report and bring it to where it was asked for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO

from ..model import Report
from ..report import FORMATS, RenderOptions, guard_line, guard_places, options_for, suppressed_line
from ..session.story_boundary import rendered
from ._errors import ReportError, UsageError
from ._output import OutputFile, usable, write_document, write_text
from ._verdict import unrepaired


@dataclass(frozen=True)
class Delivery:
    """One format on its way to one place."""

    format: str
    render: Callable[[Report, RenderOptions], str]
    file: OutputFile | None
    of_program: bool = True
    """Whether a program runs, which writes to the standard streams, too: its story is text beside what that
    says, on stderr. Else all goes to stdout."""

    @classmethod
    def of(cls, format_: str, output: str | None, *, of_program: bool = True) -> Delivery:
        """Check the format and the place before anything runs.

        Args:
            format_: One of the formats.
            output: The file that the report is to go to.
            of_program: Whether a program is about to run.

        Raises:
            UsageError: The format isn't there, or the file can't be written.
        """
        if format_ not in FORMATS:
            raise UsageError(
                f"there is no report format {format_!r}", f"The formats are {', '.join(FORMATS)}."
            )
        return cls(format_, FORMATS[format_], None if output is None else OutputFile.at(output), of_program)

    @property
    def on_stderr(self) -> bool:
        """Whether the stories are text beside the program's own messages."""
        return self.of_program and self.format == "text" and self.file is None

    def deliver(self, report: Report, *, guarded: bool = False, fallback_code: int = 0) -> None:
        """Write the report.

        Args:
            report: Complete, with its exit code.
            guarded: Say in a line of text what guard did.
            fallback_code: The program's own exit code, for an error on the way.

        Raises:
            ReportError: It could not be written.
        """
        with contextlib.suppress(OSError, ValueError):  # its reader may have gone, or the program closed it
            sys.stdout.flush()  # what the program printed comes first
        try:
            if self.file is not None:
                self.file.write(self._rendered(report, None))
            elif self.on_stderr:
                if (stream := usable(sys.stderr, sys.__stderr__)) is not None:
                    write_text(stream, self._text(report, guarded, stream))
            elif not self.of_program:
                if (stream := usable(sys.stdout, sys.__stdout__)) is not None:
                    write = write_text if self.format == "text" else write_document
                    write(stream, self._rendered(report, stream))
            elif (stream := usable(sys.__stdout__, sys.stdout)) is not None:
                self._hint(stream)
                write_document(stream, self._rendered(report, stream))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ReportError(
                f"the report could not be written: {error}",
                "The program itself has run to its end." if self.of_program else "",
                exit_code=fallback_code,
            ) from error

    def _hint(self, stream: TextIO) -> None:
        """Say that a document follows what the program printed, unless that is known to be nothing."""
        if self.format == "github" or _is_empty(stream):  # annotations are to stand among other lines
            return
        if (beside := usable(sys.stderr, sys.__stderr__)) is not None:
            what = f"the {self.format} report follows the program's own output on standard output"
            write_text(beside, f"unclobber: {what}; --output FILE keeps them apart\n")

    def _text(self, report: Report, guarded: bool, stream: TextIO) -> str:
        """Stories of what is left, after what guard did; for a clean run what could not be seen."""
        left = unrepaired(report)
        text = "".join(f"{line}\n" for line in [guard_line(report), *guard_places(report)] if guarded)
        if left:
            return text + self._rendered(replace(report, findings=left), stream)
        said = (*report.notices, suppressed_line(report))
        return text + "".join(f"unclobber: {notice}\n" for notice in said if notice)

    def _rendered(self, report: Report, stream: TextIO | None) -> str:
        text = rendered(self.render, report, options_for(stream))
        return text if text.endswith("\n") or not text else f"{text}\n"


def _is_empty(stream: TextIO) -> bool:
    """Whether it is a file in which nothing has been written."""
    try:
        return stream.buffer.tell() == 0
    except (OSError, ValueError, AttributeError):  # a pipe or a terminal
        return False
