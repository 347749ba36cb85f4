"""``unclobber run``: runs a script or module as ``__main__``, watches it, and reports at its end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from time import monotonic

import click

from ..model import Finding, Report, UnclobberError, require_installed_torch
from ..repair import with_candidates
from ..settings import ProjectSettings
from ._at_import import SessionAtImport
from ._delivery import Delivery, unrepaired
from ._errors import InternalError
from ._merge import merge_key
from ._options import PROGRAM_OPTIONS, REPORT_OPTIONS
from ._output import OutputFile, write_to_stderr
from ._program import ProgramEnd, die_interrupted, run, wait_for_children, wait_for_threads
from ._suppression import RunSuppression
from ._target import file_of_module, target_of
from ._terminal import PROGRAM
from .ranks import Ranks


class _RunCommand(click.Command):
    """A command whose options end at the program's name; ``--fingerprint`` takes its value by ``=`` only."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a bare ``--fingerprint`` its default rate, then parse."""
        # click would take the word after a bare `--fingerprint`, the script's name, for its value.
        takes_next = {n for p in self.params if isinstance(p, click.Option) and not p.is_flag for n in p.opts}
        args = list(args)
        position = 0
        while position < len(args) and args[position].startswith("-") and args[position] != "--":
            if args[position] == "--fingerprint":
                args[position] = "--fingerprint=1.0"
            position += 2 if args[position] in takes_next else 1
        return super().parse_args(ctx, args)


_LONG = 10.0  # seconds of a run from which on its end says that a native core would make the next one faster


@click.command(
    cls=_RunCommand,
    context_settings=PROGRAM,
    epilog="""
    Exit code: 0 clean, 1 findings, 2 wrong use or a fault of unclobber itself; a program that fails for its
    own reasons keeps its own traceback and its own code.

    The program's output stays as it is. The text report goes to stderr and ends in one greppable line that
    starts with `SUMMARY:`; the other formats go to stdout after the program's own output, and --output sends
    any format to a file. docs/glossary.md in the repository explains the terms of reports.

    What the options leave open `[tool.unclobber]` says, in the nearest pyproject.toml above the script that
    has it, and `# unclobber: ignore[UC102]` on the line of a write takes its finding back. What torch refuses
    can't be suppressed.
    """,
)
@click.option(
    "--guard/--no-guard", default=None, help="Give backward the values that were saved; the program runs on."
)
@click.option("--strict/--no-strict", default=None, help="Stop at writes that torch doesn't see, too.")
@click.option(
    "--fingerprint",
    type=click.FloatRange(0, 1),
    metavar="[=RATE]",
    help="Compare the values of this share of saved tensors at backward (all of them without =RATE): finds "
    "writes that nothing else sees, such as from a raw pointer.",
)
@REPORT_OPTIONS
@click.option("--exit-zero", is_flag=True, help="Exit 0 where findings alone would make it 1.")
@PROGRAM_OPTIONS
def command(
    *,
    guard: bool | None,
    strict: bool | None,
    fingerprint: float | None,
    format_: str,
    output: OutputFile | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: str | None,
    written: OutputFile | None,
    exit_zero: bool,
    as_module: bool,
    words: tuple[str, ...],
) -> int:
    """Run a program and explain each saved tensor that it overwrites.

    Everything after the program's name goes to the program.
    """
    delivery = Delivery(format_, output)
    target = target_of(words, as_module, "run")
    target.prepare()
    settings = ProjectSettings.of(target.folder).under(select=select, ignore=ignore)
    settings = settings.watching(guard=guard, strict=strict, fingerprint=fingerprint)
    suppression = RunSuppression(settings, baseline, written)
    program = ("-m", *words) if as_module else words
    require_installed_torch()
    from .children._gather import Children

    children = Children(suppression, program, text_on_stderr=delivery.on_stderr)
    watched = SessionAtImport(suppression, program)
    script = file_of_module(words[0]) if as_module else os.path.abspath(words[0])
    process = os.getpid()
    started = monotonic()
    uncaught: list[Finding] = []

    def is_finding(error: BaseException) -> bool:
        """Return whether the report explains an exception that ended the program."""
        watched.check()
        if children.explain(error):
            return True
        finding = None if watched.session is None else watched.session.finding_for(error)
        if finding is not None and finding not in uncaught:
            uncaught.append(finding)
        return finding is not None

    def report_all(ending: ProgramEnd) -> int:
        """Make the report, merge children and ranks, deliver it, and return the exit code."""
        report = watched.report(failed=ending.failed)
        report = complete(report, uncaught, ending, exit_zero=exit_zero)
        report = children.gather(report, failed=ending.failed)
        report = suppression.without_known(report, uncaught, failed=ending.failed)
        # Again, because the exit code depends on the findings that children and the baseline left.
        report = complete(report, (), ending, exit_zero=exit_zero)
        whole = report if ranks is None else ranks.gather(report, ending)
        if whole is not None and not ending.terminated:
            whole = with_candidates(whole, script)
        if whole is not None:
            whole = suppression.finished(whole, watched.files_of_program(), ending)
            # Before the report, which ends in its summary.
            if watched.session is not None and delivery.on_stderr and monotonic() - started >= _LONG:
                write_to_stderr(_what_native_brings())
            delivery.deliver(whole, guarded=settings.guard, fallback_code=ending.exit_code)
        return report.exit_code

    ranks = Ranks.join()
    if ranks is not None:
        watched.on_finding = ranks.records.record
        ranks.report_before_sigterm(report_all)
    with watched, children:
        ending = run(
            target.run, is_finding, story_follows=lambda: delivery.on_stderr and os.getpid() == process
        )
        watched.check()
        ending = wait_for_threads(ending)
        if os.getpid() == process:
            ending = wait_for_children(ending)
    code = ending.exit_code
    # A child forked by hand may reach this line, too: only its parent reports (test_as_without_us.py,
    # test_a_forked_child_that_returns).
    if os.getpid() == process:
        try:
            if ranks is not None:
                ranks.ended(uncaught if ending.refused and delivery.on_stderr else ())
            code = report_all(ending)
        except (UnclobberError, BrokenPipeError):
            raise
        except Exception as error:
            raise InternalError(error, exit_code=ending.exit_code) from error
    if ending.interrupted:
        die_interrupted()
    return code


def complete(report: Report, uncaught: Iterable[Finding], ending: ProgramEnd, *, exit_zero: bool) -> Report:
    """Return the report with the command's exit code and with the findings in `uncaught` that it lacks.

    The code of a program that failed by itself, or exited with another code than 0, stays. Unrepaired
    findings turn 0 into 1, unless `exit_zero`.
    """
    # By places and not by equality, because a finding that recurs may differ in its wording.
    there = {merge_key(finding) for finding in report.findings}
    missing = tuple(finding for finding in uncaught if merge_key(finding) not in there)
    report = replace(report, findings=report.findings + missing)
    code = ending.exit_code
    # A refusal is a finding, which `--exit-zero` takes from the code; a failure of the program's own is none.
    if ending.refused and exit_zero:
        code = 0
    elif code == 0 and unrepaired(report) and not exit_zero:
        code = 1
    return replace(report, exit_code=code)


def _what_native_brings() -> str:
    """Return a line on the native core where it could be built; empty if it can't be, or runs."""
    from ..observe.native.core import choice

    if not choice().could_be_built:
        return ""
    return (
        "unclobber: the Python core ran; `unclobber build-native`, half a minute once, makes a native one: "
        "steps of ten real programs took 1.04 times a plain one's time with it, and 1.40 without (medians)\n"
    )
