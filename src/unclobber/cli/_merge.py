"""Merging of the processes of a run into one report: findings at the same places count as one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from typing import Any, Literal, NamedTuple

from ..model import Finding, Report, Suppressed, Totals


class Part(NamedTuple):
    """The part of one process in a run."""

    holder: str | int  # the name of a process, or a rank
    findings: tuple[Finding, ...]
    report: Report | None  # None if the process has left findings only


def merge(base: Report, parts: Sequence[Part], holders: Literal["processes", "ranks"]) -> Report:
    """Return `base` with the findings, totals, notices and processes of all parts.

    Each finding names the processes or ranks that have it, in its field `holders`. Its other facts are the
    first process's, because tensor sizes, or the backward that needed it, may differ.
    """
    findings = tuple(
        _merged(((part.holder, finding) for part in parts for finding in part.findings), holders)
    )
    reported = {merge_key(finding) for finding in findings}
    reports = [part.report for part in parts if part.report is not None]
    hidden = [
        (part.holder, item) for part in parts if part.report is not None for item in part.report.suppressed
    ]
    # The first process's reason, because one process may suppress by a comment what another's baseline knows.
    by = {merge_key(item.finding): item.by for _, item in reversed(hidden)}
    suppressed = _merged(((holder, item.finding) for holder, item in hidden), holders)
    return replace(
        base,
        findings=findings,
        totals=_total(report.totals for report in reports),
        notices=tuple(dict.fromkeys(notice for report in reports for notice in report.notices)),
        processes=tuple(end for report in reports for end in report.processes),
        # A finding that any process reports is not suppressed.
        suppressed=tuple(
            Suppressed(finding, by[key])
            for finding in suppressed
            if (key := merge_key(finding)) not in reported
        ),
    )


def merge_key(finding: Finding) -> Hashable:
    """Return the key under which findings of two processes count as one: code, status and all its places."""
    saved = finding.saved
    return (
        finding.identity(lambda site: site and (site.path, site.line, site.column, site.function)),
        finding.repaired,
        finding.harmless,
        None if saved is None else (saved.role, saved.name, saved.expression),
        tuple(write.operation for write in finding.writes),
    )


def _merged(entries: Iterable[tuple[str | int, Finding]], holders: str) -> Iterator[Finding]:
    """Yield each distinct finding once, with all its holders and the sum of its times.

    The processes that ranks have started are those of all ranks.
    """
    # A dict keeps the order of the first occurrence, so the merged report is in the order of the first
    # process.
    by_key: dict[Hashable, list[tuple[str | int, Finding]]] = {}
    for holder, finding in entries:
        by_key.setdefault(merge_key(finding), []).append((holder, finding))
    for versions in by_key.values():
        facts: dict[str, Any] = {
            "times": sum(finding.times for _, finding in versions),
            "processes": tuple(dict.fromkeys(name for _, finding in versions for name in finding.processes)),
        }
        facts[holders] = tuple(dict.fromkeys(holder for holder, _ in versions))
        yield replace(versions[0][1], **facts)


def _total(totals: Iterable[Totals]) -> Totals:
    return Totals(*map(sum, zip(*map(astuple, totals), strict=True)))
