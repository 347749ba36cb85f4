"""What several processes found, put together: the same places are one finding."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from ..model import Finding, Report, Site, Suppressed, Totals

Who = TypeVar("Who", bound=Hashable)


def joined(
    found: Iterable[tuple[Who, Iterable[Finding]]],
) -> Iterator[tuple[Finding, tuple[Who, ...], Sequence[Finding]]]:
    """Each finding once, as the first one tells it, with all who have it and what each of them says."""
    by_places: dict[Hashable, tuple[dict[Who, None], list[Finding]]] = {}
    for who, findings in found:
        for finding in findings:
            finders, same = by_places.setdefault(places(finding), ({}, []))
            finders[who] = None
            same.append(finding)
    for finders, same in by_places.values():
        yield same[0], tuple(finders), same


def joined_suppressed(
    found: Iterable[tuple[Who, Iterable[Suppressed]]], told: Iterable[Finding]
) -> Iterator[tuple[Suppressed, tuple[Who, ...]]]:
    """Each suppressed finding once, with all who have it; without those that one of them tells."""
    listed = [(who, tuple(suppressed)) for who, suppressed in found]
    by = {id(one.finding): one.by for _, suppressed in listed for one in suppressed}
    there = {places(finding) for finding in told}
    for finding, finders, _ in joined((who, [one.finding for one in each]) for who, each in listed):
        if places(finding) not in there:
            yield Suppressed(finding, by[id(finding)]), finders


def places(finding: Finding) -> Hashable:
    """What makes the findings of two processes the same one."""
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
    """What all of them counted, together."""
    counts = [report.totals for report in reports]
    return Totals(
        saves=sum(one.saves for one in counts),
        writes=sum(one.writes for one in counts),
        conflicts=sum(one.conflicts for one in counts),
        kept_bytes=sum(one.kept_bytes for one in counts),
    )
