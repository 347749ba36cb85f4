"""Numbers and names as people read them."""

from __future__ import annotations

import os

from ._facts import Place


def size(count: int) -> str:
    """Bytes with a binary unit and three digits or so.

    Example:
        >>> size(0), size(1023), size(20987904), size(-4096)
        ('0 B', '1023 B', '20.0 MiB', '-4.0 KiB')
    """
    amount = float(abs(count))
    sign = "-" if count < 0 else ""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{sign}{amount:.0f} B" if unit == "B" else f"{sign}{amount:.1f} {unit}"
        amount /= 1024
    return f"{sign}{amount:.1f} TiB"


def short(place: Place | None) -> str:
    """``train.py:14``; the folder too where the file name alone says little."""
    if place is None:
        return "(unknown line)"
    folder, name = os.path.split(place.path)
    if name in ("__init__.py", "__main__.py"):
        name = f"{os.path.basename(folder)}/{name}"
    return f"{name}:{place.line}"


def shape(sizes: tuple[int, ...]) -> str:
    """``4×128×256``; ``scalar`` for no dimension."""
    return "×".join(map(str, sizes)) or "scalar"


def several(names: tuple[str, ...]) -> str:
    """The first of some names, and how many more there are."""
    if not names:
        return ""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def many(count: int, noun: str) -> str:
    """``1 line``, ``2 lines``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
