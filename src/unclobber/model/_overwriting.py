"""Which of the writes to a storage overwrote what a derivative needs."""

from __future__ import annotations

from ._finding import Finding
from ._site import Site
from ._write import Write


def culprit(writes: tuple[Write, ...]) -> Write | None:
    """The first write that touched a needed element, as reports point at; else the last one."""
    touching = [write for write in writes if write.overlaps_needed]
    return touching[0] if touching else writes[-1] if writes else None


def overwrites(writes: tuple[Write, ...]) -> int:
    """How many writes may have touched needed elements: several may have restored them."""
    return sum(write.count for write in writes if write.overlaps_needed)


def touching(writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """The writes that touched a needed element: where no counter speaks, the others did no harm."""
    return tuple(write for write in writes if write.overlaps_needed)


def written_at(finding: Finding) -> tuple[Site, ...]:
    """The lines that are to blame, the one that reports point at first: those of all writes that overwrote
    what is needed, as far as they are known; without any, the line that needs or saved it."""
    known = [write for write in finding.writes if write.site]
    sites = [write.site for write in (touching(tuple(known)) or known[:1]) if write.site]
    if not sites:
        sites = [place.site for place in (finding.needed, finding.saved) if place and place.site][:1]
    return tuple(sites)
