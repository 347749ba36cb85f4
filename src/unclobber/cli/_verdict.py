"""From how the program ended and what was found to what the command says and exits with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..model import Finding, Report
from ._places import places

if TYPE_CHECKING:
    from ._program import ProgramEnd


def complete(report: Report, uncaught: Iterable[Finding], ending: ProgramEnd, *, exit_zero: bool) -> Report:
    """Put the command's exit code into a session's report, and any finding that ended the program and is not
    there: at the second time it may be told a little differently.

    A program's own failure, and a code of its own that isn't 0, stay. Findings make 1 of a 0; those that
    guard has repaired don't.
    """
    there = {places(finding) for finding in report.findings}
    missing = tuple(finding for finding in uncaught if places(finding) not in there)
    report = replace(report, findings=report.findings + missing)
    code = ending.exit_code
    if ending.refused and exit_zero:
        code = 0
    elif code == 0 and unrepaired(report) and not exit_zero:
        code = 1
    return replace(report, exit_code=code)


def unrepaired(report: Report) -> tuple[Finding, ...]:
    """The findings that leave a gradient wrong or missing."""
    return tuple(finding for finding in report.findings if not finding.repaired)
