"""The edits that may be right, put into a report where they can be had."""

from __future__ import annotations

from ..model import Report


def with_edits(report: Report, script: str | None = None) -> Report:
    """The report with candidates in its findings; as it is where LibCST is missing.

    Args:
        report: Of a run that has ended, or a part of one.
        script: Absolute path of the script that ``report.command`` ran; None for anything else.
    """
    if all(finding.repaired for finding in report.findings):
        return report
    try:
        from .candidates import with_candidates
    except ImportError:
        return report
    return with_candidates(report, script)
