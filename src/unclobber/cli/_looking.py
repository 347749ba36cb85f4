"""Checking of sources without running them: for ``check``, and for ``fix --no-run``."""

from __future__ import annotations

import ast
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ..model import CheckedSources, Finding, Report, Suppressed
from ..model.text import plural
from ..settings import Baseline, ProjectSettings, Suppression, comments_in, shown_path
from ..settings.pyproject import settings_for
from ._errors import UsageError, not_python
from ._output import OutputFile
from ._suppression import idle_entries
from ._suppression import write_baseline as write_the_baseline

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..static import CheckedFile

_SHOWN_AFTER = 1.0
"""Seconds after which a progress bar appears."""
_MOST_PROBLEMS = 5


def looked_at(
    paths: Sequence[str],
    *,
    all_rules: bool = False,
    only_high: bool = False,
    jobs: int = 0,
    chosen: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    known: Baseline | None = None,
    written: OutputFile | None = None,
) -> Report:
    """Check files and folders; return the report without its exit code.

    Args:
        paths: Files and folders, as the user named them.
        all_rules: Whether to run the rules that only ``--all`` enables, too.
        only_high: Whether to drop findings of medium confidence.
        jobs: Processes; 0 for as many as there are cores.
        chosen: Codes to report (all if empty), and codes to ignore.
        known: Baseline whose findings are suppressed.
        written: File for a new baseline of these findings; they are suppressed then.

    Raises:
        UsageError: A path isn't there, a file that is named isn't Python, or a comment in a checked file
            can't be understood.
        SettingsError: The settings of a checked file's project are wrong.
    """
    from ..static import python_files

    try:
        files = python_files(paths)
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename}: no such file or directory", "Name files and folders.") from None
    named = list(dict.fromkeys(filter(os.path.isfile, paths)))
    for path in named:
        _require_no_notebook(path)
    checked_files = _look(files, all_rules, jobs)
    parsed = {file.path for file in checked_files if file.parsed}
    for path in named:
        if os.path.abspath(path) not in parsed:
            _require_python(path)
    for folder in dict.fromkeys(map(os.path.dirname, files)):
        settings_for(folder)  # a mistake there is reported even if there is no finding
    for file in checked_files:
        _require_understood(file)
    findings = [f for file in checked_files for f in file.findings if f.confidence == "high" or not only_high]
    report = _judged(findings, chosen, known, written)
    return replace(
        report,
        command=("check", *paths),
        checked=CheckedSources(len(checked_files), sum(file.lines for file in checked_files)),
        notices=(*report.notices, *_problems(checked_files)),
        outcome="suspected" if report.findings else "clean",
    )


def _require_no_notebook(path: str) -> None:
    if path.endswith(".ipynb"):
        raise UsageError(
            f"{path} is a notebook, which `check` doesn't read",
            "`%load_ext unclobber` in the notebook watches its cells.",
        )


def _require_python(path: str) -> None:
    """Raise a `UsageError` if a file that the user named isn't Python."""
    try:
        with open(path, "rb") as stream:
            compile(stream.read(), path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        raise not_python(error, path) from None
    except (OSError, ValueError, RecursionError, MemoryError):
        return  # the report says that it can't be read or followed


def _require_understood(file: CheckedFile) -> None:
    """Raise a `UsageError` for a comment that was meant to suppress a finding, and doesn't."""
    for comment in comments_in(file.path) if file.is_commented else ():
        if comment.problem:
            where = f"{shown_path(file.path)}:{comment.line}"
            raise UsageError(f"{where}: `{comment.text}` is not understood: {comment.problem}")


# --- looking -----------------------------------------------------------------------------------------
def _look(files: Sequence[str], all_rules: bool, jobs: int) -> list[CheckedFile]:
    from ..static import check_files

    with _bar(len(files)) as done:
        return check_files(files, all_rules=all_rules, jobs=jobs, done=done)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[CheckedFile], None]]:
    """Yield a function to call after each checked file. On a terminal it draws a progress bar after
    `_SHOWN_AFTER` seconds.
    """
    started = time.monotonic()
    # `2>&-` leaves no stderr: sys.stderr is None.
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("checking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=total)

    def done(_: CheckedFile) -> None:
        if not bar.live.is_started and time.monotonic() - started > _SHOWN_AFTER:
            bar.start()
        bar.advance(task)

    try:
        yield done
    finally:
        bar.stop()


def _problems(checked_files: Sequence[CheckedFile]) -> list[str]:
    wrong = [file for file in checked_files if file.problem]
    said = [f"{shown_path(file.path)} {file.problem}" for file in wrong[:_MOST_PROBLEMS]]
    if more := len(wrong) - len(said):
        said.append(f"{plural(more, 'more file')} can't be read or followed")
    return said


# --- judging -----------------------------------------------------------------------------------------
def _judged(
    findings: Sequence[Finding],
    chosen: tuple[tuple[str, ...], tuple[str, ...]],
    known: Baseline | None,
    written: OutputFile | None,
) -> Report:
    """Split the findings by the settings, comments and baseline that suppress them. Write a new baseline
    to `written`.
    """
    reported: list[Finding] = []
    suppressed: list[Suppressed] = []
    by_folder: dict[str, Suppression] = {}
    for finding in findings:
        folder = os.path.dirname(_path(finding))
        if folder not in by_folder:
            # Cached by folder, because each folder may have another pyproject.toml above it and reading it
            # costs a parse.
            by_folder[folder] = Suppression(_settings(folder, chosen))
        by = by_folder[folder].by(finding)
        if by is None:
            reported.append(by_folder[folder].noted(finding))
        else:
            suppressed.append(Suppressed(finding, by))
    notices: list[str] = []
    if written is not None:
        write_the_baseline(reported, written)
        notices.append(f"{plural(len(reported), 'finding')} written to {shown_path(written.path)}")
        in_baseline, reported = reported, []
    elif known is not None:
        reported, in_baseline, idle = known.split(reported)
        notices += idle_entries(idle)
    else:
        in_baseline = []
    suppressed += [Suppressed(finding, "baseline") for finding in in_baseline]
    return Report("clean", tuple(reported), notices=tuple(notices), suppressed=tuple(suppressed))


def _path(finding: Finding) -> str:
    places = [*finding.writes, finding.needed, finding.saved]
    return next(place.site.path for place in places if place is not None and place.site is not None)


def _settings(folder: str, chosen: tuple[tuple[str, ...], tuple[str, ...]]) -> ProjectSettings:
    return settings_for(folder).under(select=chosen[0], ignore=chosen[1])
