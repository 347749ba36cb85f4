"""``unclobber check``: hazards in sources, found without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from ..repair import with_candidates
from ..settings import Baseline
from ._completion import a_file, choices
from ._delivery import Delivery
from ._errors import UsageError
from ._looking import looked_at
from ._options import reporting
from ._output import OutputFile
from ._suppression import codes_of
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
    default="medium",
    metavar="high|medium",
    shell_complete=choices(("high", "medium")),
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
    all_rules: bool,
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
    report = looked_at(
        paths,
        all_rules=all_rules,
        only_high=confidence == "high",
        jobs=jobs,
        chosen=chosen,
        known=known,
        written=new_baseline,
    )
    report = replace(report, exit_code=int(bool(report.findings) and not exit_zero))
    delivery.deliver(with_candidates(report))
    return report.exit_code


def _checked_words(confidence: str, paths: Sequence[str]) -> None:
    if confidence not in ("high", "medium"):
        raise UsageError(f"there is no confidence {confidence!r}", "It is high or medium.")
    if not paths:
        raise UsageError("nothing to look at", "Name files and folders: `unclobber check src`.")
