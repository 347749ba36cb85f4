"""Candidate edits for a report, if LibCST is installed."""

from __future__ import annotations

from ..model import Report


def with_edits(report: Report, script: str | None = None) -> Report:
    """Return the report with candidates in its findings; unchanged if LibCST is missing.

    Args:
        report: The report of a run that has ended, or a part of one.
        script: Absolute path of the script that ``report.command`` ran; None for anything else.
    """
    if all(finding.repaired for finding in report.findings):
        return report
    try:
        from .candidates import with_candidates
    except ImportError:
        return report
    return with_candidates(report, script)
