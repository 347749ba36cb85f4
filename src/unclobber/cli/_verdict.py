"""From how the program ended and what was found to what the command says and exits with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..model import Finding, Report
from ..model.text import plural

if TYPE_CHECKING:
    from ._program import Ending


def complete(report: Report, uncaught: Iterable[Finding], ending: Ending, *, exit_zero: bool) -> Report:
    """Put the command's exit code into a session's report, and any finding that ended the program.

    A program's own failure, and a code of its own that isn't 0, stay. Findings make 1 of a 0; those that
    guard has repaired don't.
    """
    missing = tuple(finding for finding in uncaught if finding not in report.findings)
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


def guard_line(report: Report) -> str:
    """What guard did, in one line: how often backward was given a value back, and what it took.

    Example:
        >>> guard_line(Report("clean"))
        'guard: nothing had to be restored, nothing was kept'
    """
    overwritten = [finding for finding in report.findings if finding.entry.stage == "backward"]
    places = sum(finding.repaired for finding in overwritten)
    size = _size(report.totals.kept_bytes) if report.totals.kept_bytes else ""
    kept = f", {size} kept at peak" if size else ", nothing kept"
    if not overwritten:
        restored = "nothing had to be restored"
        kept = f" ({size} kept in case)" if size else ", nothing was kept"
    elif places < len(overwritten):
        # The ledger counts conflicts of both kinds together, so how often each was met is not known.
        restored = f"overwritten values restored at {places} of {plural(len(overwritten), 'place')}"
    else:
        times = _count(max(report.totals.conflicts, places), "overwritten value")
        restored = f"{times} restored for backward ({_count(places, 'place')})"
    return f"guard: {restored}{kept}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _size(count: int) -> str:
    """Bytes in the largest decimal unit that leaves at least 1.

    Example:
        >>> _size(4), _size(1234), _size(2_500_000_000)
        ('4 bytes', '1.2 kB', '2.5 GB')
    """
    if count < 1000:
        return _count(count, "byte")
    amount = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.95 or unit == "TB":
            return f"{amount:.1f} {unit}"
    raise AssertionError("the loop ends at TB")
