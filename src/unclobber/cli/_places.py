"""Merging of several processes' findings: findings at the same places count as one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from ..model import Finding, Report, Site, Suppressed, Totals

Who = TypeVar("Who", bound=Hashable)


def joined(
    reports: Iterable[tuple[Who, Iterable[Finding]]],
) -> Iterator[tuple[Finding, tuple[Who, ...], Sequence[Finding]]]:
    """Yield each distinct finding once, from the first process that has it, with all processes that have
    it and all their versions of it.
    """
    by_places: dict[Hashable, tuple[dict[Who, None], list[Finding]]] = {}
    for who, findings in reports:
        for finding in findings:
            finders, same = by_places.setdefault(places(finding), ({}, []))
            finders[who] = None
            same.append(finding)
    # A dict keeps the order of the first occurrence, so the merged report is in the order of the first
    # process.
    for finders, same in by_places.values():
        yield same[0], tuple(finders), same


def joined_suppressed(
    reports: Iterable[tuple[Who, Iterable[Suppressed]]], told: Iterable[Finding]
) -> Iterator[tuple[Suppressed, tuple[Who, ...]]]:
    """Yield each suppressed finding once, with the processes that have it. Findings that any process
    reports are left out.
    """
    listed = [(who, tuple(suppressed)) for who, suppressed in reports]
    by = {id(item.finding): item.by for _, suppressed in listed for item in suppressed}
    there = {places(finding) for finding in told}
    for finding, finders, _ in joined((who, [item.finding for item in each]) for who, each in listed):
        if places(finding) not in there:
            yield Suppressed(finding, by[id(finding)]), finders


def places(finding: Finding) -> Hashable:
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
