"""The writes to a storage that overwrote elements which a derivative needs."""

from __future__ import annotations

from ._finding import Finding
from ._site import Site
from ._write import Write


def culprit(writes: tuple[Write, ...]) -> Write | None:
    """Return the first write that touched a needed element, which reports point at; else the last write, or
    None."""
    touching = [write for write in writes if write.overlaps_needed]
    return touching[0] if touching else writes[-1] if writes else None


def overwrites(writes: tuple[Write, ...]) -> int:
    """Return how many writes may have touched needed elements; several may have restored them."""
    return sum(write.count for write in writes if write.overlaps_needed)


def touching(writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """Return the writes that touched a needed element. If torch compares no counter, all other writes did no
    harm."""
    return tuple(write for write in writes if write.overlaps_needed)


def written_at(finding: Finding) -> tuple[Site, ...]:
    """Return the lines to blame, the one that reports point at first.

    They are the known lines of all writes that overwrote needed elements. If there are none, it is the line
    of the first known write, else the line that needs or saved the tensor.
    """
    known = [write for write in finding.writes if write.site]
    sites = [write.site for write in (touching(tuple(known)) or known[:1]) if write.site]
    if not sites:
        sites = [place.site for place in (finding.needed, finding.saved) if place and place.site][:1]
    return tuple(sites)
