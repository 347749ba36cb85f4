"""``unclobber check``: hazards in sources, found without running anything."""

from __future__ import annotations

import linecache
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import click

from ..model import Report
from ..repair import with_candidates
from ..report import line_of
from ..settings import add_comments
from ._delivery import Delivery
from ._errors import UsageError
from ._looking import CheckOptions, fewer_with, looked_at
from ._options import JOBS_OPTION, REPORT_OPTIONS, a_file, choices
from ._output import OutputFile, write_text
from ._terminal import COMMAND


@click.command(
    context_settings=COMMAND,
    epilog="""
    Exit code: 0 nothing found, 1 findings, 2 wrong use or a fault of unclobber itself.

    What is found without running anything is a companion of `unclobber run` and never stands for it: it can't
    see everything, and a clean result proves nothing. `[tool.unclobber]` in the nearest pyproject.toml,
    `# unclobber: ignore[UC101]` on the line of the write and baselines work as they do for `run`.
    """,
)
@click.option(
    "--all",
    "all_rules",
    is_flag=True,
    help="Also what is too often no fault: saves that may need no gradient, `.data`, gradients that are "
    "changed in backward.",
)
@click.option(
    "--confidence",
    metavar="high|medium",
    shell_complete=choices(("high", "medium")),
    help="Tell only what has at least this confidence; medium if the settings don't say.",
)
@REPORT_OPTIONS
@click.option(
    "--since",
    metavar="COMMIT",
    help="Tell only what has a line that changed since the branch left this one, as git says.",
)
@click.option(
    "--stdin-filename", metavar="FILE", shell_complete=a_file, help="The name of the text that `-` reads."
)
@click.option("--add-ignore", is_flag=True, help="Add `# unclobber: ignore[…]` to the lines of all findings.")
@click.option("--statistics", is_flag=True, help="Print how often each code was found, and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print one line for each finding, and nothing else.")
@JOBS_OPTION
@click.option(
    "--no-cache",
    "use_cache",
    flag_value=False,
    default=True,
    help="Check files again in which an earlier check found nothing.",
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 where findings alone would make it 1.")
@click.argument("paths", nargs=-1, metavar="PATH...", shell_complete=a_file)
def command(
    *,
    format_: str,
    output: OutputFile | None,
    stdin_filename: str | None,
    add_ignore: bool,
    statistics: bool,
    quiet: bool,
    exit_zero: bool,
    paths: tuple[str, ...],
    **given: Any,
) -> int:
    """Look for in-place hazards in files and folders, without running or importing them.

    PATH is a Python file, a notebook, a folder, or `-` for standard input.

    High confidence: backward, or the line, fails if it runs with gradients on. Medium: it may.
    """
    delivery = Delivery(format_, output, of_program=False)
    _checked_words(given["confidence"], paths)
    if (statistics or quiet) and format_ != "text":
        raise UsageError("--statistics and --quiet are for the text format", f"Leave --format {format_} out.")
    if add_ignore and paths == ("-",):
        raise UsageError("--add-ignore writes comments into files, and `-` is none", "Name the saved file.")
    options = CheckOptions(**given, stdin=_stdin(stdin_filename) if paths == ("-",) else None)
    report = looked_at(paths, options)
    if add_ignore:
        for said in add_comments(report.findings):
            click.echo(said)
        return 0
    report = replace(report, exit_code=int(bool(report.findings) and not exit_zero))
    if statistics or quiet:
        lines = _statistics(report) if statistics else map(line_of, report.findings)
        write_text(sys.stdout, "".join(f"{line}\n" for line in lines))
    else:
        delivery.deliver(with_candidates(report, ends=fewer_with))
    return report.exit_code


def _checked_words(confidence: str | None, paths: Sequence[str]) -> None:
    if confidence not in (None, "high", "medium"):
        raise UsageError(f"there is no confidence {confidence!r}", "It is high or medium.")
    if not paths:
        raise UsageError("nothing to look at", "Name files and folders: `unclobber check src`.")
    if "-" in paths and len(paths) > 1:
        raise UsageError("`-` stands for the only text", "Name files without it, or give `-` alone.")


def _stdin(name: str | None) -> tuple[str, str]:
    """Return the path and the text of standard input; reports find its lines under that path."""
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is no UTF-8: {error}") from None
    path = "<stdin>" if name is None else os.path.abspath(name)
    # linecache, because all parts of a report read sources there.
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return path, text


def _statistics(report: Report) -> Iterable[str]:
    counts = Counter((finding.code, finding.name) for finding in report.findings)
    # By code where counts are equal, so that the order is the same in each run.
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return (f"{count:5}  {code}  {name}" for (code, name), count in ordered)
