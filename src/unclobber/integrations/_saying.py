"""Messages that the library prints by itself, on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from types import TracebackType

from ..model import Finding, InplaceError, Report
from ..repair import with_candidates
from ..repair.main_module import is_default_hook
from ..report import FORMATS, guard_lines, options_for
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
    say("\n".join(guard_lines(session.report(), options_for(sys.stderr).width)))


def story(finding: Finding, reported: Sequence[Finding]) -> list[str]:
    """Return the report, as lines, of a finding and of the tensors its backward would have refused next."""
    same = [other for other in reported if other.ahead and other.needed == finding.needed]
    report = Report("refused", (finding, *same), command=tuple(sys.argv), exit_code=1)
    return FORMATS["text"](with_candidates(report, _script()), options_for(sys.stderr)).splitlines()


def show_without_traceback(error: InplaceError, reported: Sequence[Finding]) -> None:
    # The error keeps its traceback, which debuggers and the program's own handlers read.
    # No lambda, because a process sends its error to another one with all its attributes.
    error._render_traceback_ = partial(story, error.finding, tuple(reported))  # type: ignore[attr-defined]
    if is_default_hook(sys.excepthook):
        sys.excepthook = shows_stories


def shows_stories(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Show the report of such an error, and any other error as the interpreter does (``sys.excepthook``)."""
    lines = getattr(error, "_render_traceback_", None)
    if isinstance(error, InplaceError) and lines is not None:
        say("\n".join(["", *lines()]))  # the cursor may still be behind a progress bar
    else:
        sys.__excepthook__(kind, error, traceback)


shows_stories.shows_reports = True  # type: ignore[attr-defined]  # `unclobber run` prints the report itself


def _script() -> str | None:
    """Return the absolute path of the program's script; None for ``python -m``, ``-c`` and the interactive
    interpreter.
    """
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    return None if path is None or getattr(main, "__spec__", None) is not None else os.path.abspath(path)
