"""The exit code and findings of a run, from its report and how the program ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..model import Finding, Report
from ._merge import merge_key

if TYPE_CHECKING:
    from ._program import ProgramEnd


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


def unrepaired(report: Report) -> tuple[Finding, ...]:  # those leave a gradient wrong or missing
    return tuple(finding for finding in report.findings if not finding.repaired)
