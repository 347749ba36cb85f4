"""The writes to a storage that overwrote elements which a derivative needs."""

from __future__ import annotations

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
