"""What a run as a whole came to."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Finding, Outcome


def outcome(findings: Iterable[Finding], *, failed: bool) -> Outcome:
    """The worst of what was found and not repaired.

    Args:
        findings: All of a run.
        failed: Whether the program failed for reasons of its own.
    """
    standing = [finding for finding in findings if not finding.repaired]
    if any(finding.torch_message for finding in standing):
        return "refused"
    if standing:
        return "silent"
    return "script-error" if failed else "clean"
