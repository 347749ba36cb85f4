"""``unclobber check``: hazards in sources, found without running anything."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ..model import CheckedSources, Finding, Report, Suppressed
from ..model.text import plural
from ..repair.edits import with_edits
from ..settings import Baseline, ProjectSettings, Suppression, shown_path
from ..settings.pyproject import settings_for
from ._completion import a_file, one_of
from ._delivery import Delivery
from ._errors import UsageError
from ._options import reporting
from ._output import OutputFile
from ._suppression import codes_of, idle_entries
from ._suppression import write_baseline as write_the_baseline
from ._terminal import HELP

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..static import CheckedFile

_SHOWN_AFTER = 1.0
"""Seconds after which a bar shows how far it has come."""
_MOST_PROBLEMS = 5


@click.command(
    context_settings={"max_content_width": 100, "help_option_names": HELP},
    epilog="""
    Exit code: 0 nothing found, 1 findings, 2 wrong use or a fault of unclobber itself.

    What is found without running anything is a companion of `unclobber run` and never stands for it: it can't
    see everything, and a clean result proves nothing. `[tool.unclobber]` in the nearest pyproject.toml,
    `# unclobber: ignore[UC101]` on the line of the write and baselines work as they do for `run`.
    """,
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also what is too often no fault: saves that may need no gradient, `.data`, gradients that are "
    "changed in backward.",
)
@click.option(
    "--confidence",
    default="medium",
    metavar="high|medium",
    shell_complete=one_of(("high", "medium")),
    help="Tell only what has at least this confidence; medium is the default.",
)
@reporting
@click.option(
    "--jobs", type=click.IntRange(min=0), default=0, help="Processes; as many as there are cores by default."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 where findings alone would make it 1.")
@click.argument("paths", nargs=-1, metavar="PATH...", shell_complete=a_file)
def command(
    *,
    everything: bool,
    confidence: str,
    format_: str,
    output: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: str | None,
    write_baseline: str | None,
    jobs: int,
    exit_zero: bool,
    paths: tuple[str, ...],
) -> int:
    """Look for in-place hazards in files and folders, without running or importing them.

    High confidence: backward, or the line, fails if it runs with gradients on. Medium: it may.
    """
    delivery = Delivery.of(format_, output, of_program=False)
    _checked_words(confidence, paths)
    new_baseline = None if write_baseline is None else OutputFile.at(write_baseline, "--write-baseline")
    known = None if baseline is None else Baseline.read(baseline)
    chosen = codes_of(select, "--select"), codes_of(ignore, "--ignore")
    from ..static import python_files

    try:
        files = python_files(paths)
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename}: no such file or directory", "Name files and folders.") from None
    found = _look(files, everything, jobs)
    findings = [f for one in found for f in one.findings if confidence == "medium" or f.confidence == "high"]
    report = _judged(findings, chosen, known, new_baseline)
    report = replace(
        report,
        command=("check", *paths),
        checked=CheckedSources(len(found), sum(one.lines for one in found)),
        notices=(*report.notices, *_problems(found)),
        exit_code=int(bool(report.findings) and not exit_zero),
        outcome="suspected" if report.findings else "clean",
    )
    delivery.deliver(with_edits(report))
    return report.exit_code


def _checked_words(confidence: str, paths: Sequence[str]) -> None:
    if confidence not in ("high", "medium"):
        raise UsageError(f"there is no confidence {confidence!r}", "It is high or medium.")
    if not paths:
        raise UsageError("nothing to look at", "Name files and folders: `unclobber check src`.")


# --- looking -----------------------------------------------------------------------------------------
def _look(files: Sequence[str], everything: bool, jobs: int) -> list[CheckedFile]:
    from ..static import check_files

    with _bar(len(files)) as done:
        return check_files(files, everything=everything, jobs=jobs, done=done)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[CheckedFile], None]]:
    """Gives what to tell of each file: on a terminal a bar, once it has taken a second."""
    begun = time.monotonic()
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
        if not bar.live.is_started and time.monotonic() - begun > _SHOWN_AFTER:
            bar.start()
        bar.advance(task)

    try:
        yield done
    finally:
        bar.stop()


def _problems(found: Sequence[CheckedFile]) -> list[str]:
    wrong = [one for one in found if one.problem]
    said = [f"{shown_path(one.path)} {one.problem}" for one in wrong[:_MOST_PROBLEMS]]
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
    """The findings, parted by what the settings, comments and a baseline say of them."""
    told: list[Finding] = []
    suppressed: list[Suppressed] = []
    by_folder: dict[str, Suppression] = {}
    for finding in findings:
        folder = os.path.dirname(_path(finding))
        if folder not in by_folder:
            by_folder[folder] = Suppression(_settings(folder, chosen))
        by = by_folder[folder].by(finding)
        if by is None:
            told.append(by_folder[folder].noted(finding))
        else:
            suppressed.append(Suppressed(finding, by))
    notices: list[str] = []
    if written is not None:
        write_the_baseline(told, written)
        notices.append(f"{plural(len(told), 'finding')} written to {shown_path(written.path)}")
        in_baseline, told = told, []
    elif known is not None:
        told, in_baseline, idle = known.split(told)
        notices += idle_entries(idle)
    else:
        in_baseline = []
    suppressed += [Suppressed(finding, "baseline") for finding in in_baseline]
    return Report("clean", tuple(told), notices=tuple(notices), suppressed=tuple(suppressed))


def _path(finding: Finding) -> str:
    places = [*finding.writes, finding.needed, finding.saved]
    return next(one.site.path for one in places if one is not None and one.site is not None)


def _settings(folder: str, chosen: tuple[tuple[str, ...], tuple[str, ...]]) -> ProjectSettings:
    return settings_for(folder).under(select=chosen[0], ignore=chosen[1])
