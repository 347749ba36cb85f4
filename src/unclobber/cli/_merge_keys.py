"""Merging of several processes' findings: findings at the same places count as one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from ..model import Finding, Report, Site, Suppressed, Totals

Holder = TypeVar("Holder", bound=Hashable)


def joined(
    reports: Iterable[tuple[Holder, Iterable[Finding]]],
) -> Iterator[tuple[Finding, tuple[Holder, ...], Sequence[Finding]]]:
    """Yield each distinct finding once, from the first process that has it, with all processes that have
    it and all their versions of it.
    """
    by_key: dict[Hashable, tuple[dict[Holder, None], list[Finding]]] = {}
    for holder, findings in reports:
        for finding in findings:
            holders, same = by_key.setdefault(merge_key(finding), ({}, []))
            holders[holder] = None
            same.append(finding)
    # A dict keeps the order of the first occurrence, so the merged report is in the order of the first
    # process.
    for holders, same in by_key.values():
        yield same[0], tuple(holders), same


def joined_suppressed(
    reports: Iterable[tuple[Holder, Iterable[Suppressed]]], reported: Iterable[Finding]
) -> Iterator[tuple[Suppressed, tuple[Holder, ...]]]:
    """Yield each suppressed finding once, with the processes that have it. Findings that any process
    reports are left out.
    """
    listed = [(holder, tuple(suppressed)) for holder, suppressed in reports]
    by = {id(item.finding): item.by for _, suppressed in listed for item in suppressed}
    there = {merge_key(finding) for finding in reported}
    for finding, holders, _ in joined((holder, [item.finding for item in each]) for holder, each in listed):
        if merge_key(finding) not in there:
            yield Suppressed(finding, by[id(finding)]), holders


def merge_key(finding: Finding) -> Hashable:
    """Return the key under which findings of two processes count as one: code, status and all its places."""
    saved = finding.saved
    return (
        finding.code,
        finding.repaired,
        finding.harmless,
        None if saved is None else (_place(saved.site), saved.role, saved.name, saved.expression),
        tuple((_place(write.site), write.operation) for write in finding.writes),
        None if finding.needed is None else _place(finding.needed.site),
        None if finding.freed is None else _place(finding.freed.site),
    )


def _place(site: Site | None) -> Hashable:
    return None if site is None else (site.path, site.line, site.column, site.function)


def total(reports: Iterable[Report]) -> Totals:
    """Return the sum of the reports' totals."""
    counts = [report.totals for report in reports]
    return Totals(
        saves=sum(totals.saves for totals in counts),
        writes=sum(totals.writes for totals in counts),
        conflicts=sum(totals.conflicts for totals in counts),
        kept_bytes=sum(totals.kept_bytes for totals in counts),
    )
