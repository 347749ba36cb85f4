"""The outcome of a whole run."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Finding, Outcome


def outcome(findings: Iterable[Finding], *, failed: bool) -> Outcome:
    """Return the worst outcome of the findings that were not repaired.

    Args:
        findings: All of a run.
        failed: Whether the program failed for reasons of its own.
    """
    unrepaired = [finding for finding in findings if not finding.repaired]
    if any(finding.torch_message for finding in unrepaired):
        return "refused"
    if unrepaired:
        return "silent"
    return "script-error" if failed else "clean"
