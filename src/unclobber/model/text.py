"""Counts, sizes, shapes and lists in words: one wording for every report and command."""

from __future__ import annotations

import re
from collections.abc import Sequence


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun: ``nouns`` is the plural if that is not ``noun + "s"``.

    Example:
        >>> plural(1, "write"), plural(5, "write"), plural(0, "copy", "copies")
        ('1 write', '5 writes', '0 copies')
    """
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def size(count: int) -> str:
    """Return a number of bytes, from 1024 on in the largest binary unit that leaves at least 1.

    Example:
        >>> size(1), size(1000), size(4608), size(1024**2 - 1), size(-4096)
        ('1 byte', '1000 bytes', '4.5 KiB', '1.0 MiB', '-4.0 KiB')
    """
    if abs(count) < 1024:
        return plural(count, "byte")
    value, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        # Rounded first, so that no size reads `1024.0 KiB`.
        if abs(round(value, 1)) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def shape(sizes: Sequence[int]) -> str:
    """Return the sizes of a tensor's dimensions; ``scalar`` if it has none.

    Example:
        >>> shape((4, 128, 256)), shape((5,)), shape(())
        ('4x128x256', '5', 'scalar')
    """
    return "x".join(map(str, sizes)) or "scalar"


def listing(items: Sequence[str], limit: int = 4) -> str:
    """Return a list in words; items beyond ``limit`` are counted, never one item alone.

    Example:
        >>> listing(["a"]), listing(["a", "b", "c"]), listing(list("abcdefg"), limit=3)
        ('a', 'a, b and c', 'a, b, c and 4 more')
    """
    if len(items) > limit + 1:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def wanted_memory(error: BaseException) -> str | None:
    """Return how much memory an allocation wanted, in words; None if the error is another one.

    The CPU's allocator raises a RuntimeError, which only its message distinguishes.

    Example:
        >>> wanted_memory(RuntimeError("DefaultCPUAllocator: … you tried to allocate 4096 bytes. …"))
        '4.0 KiB'
        >>> wanted_memory(RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has …"))
        '20.00 MiB'
        >>> wanted_memory(RuntimeError("shapes differ"))
    """
    message = str(error)
    if not (isinstance(error, MemoryError) or "DefaultCPUAllocator" in message or "out of memory" in message):
        return None
    amount = re.search(r"tried to allocate ([\d.]+) (\w+)", message, re.IGNORECASE)
    if amount is None:
        return "memory"
    return size(int(amount[1])) if amount[2] == "bytes" else amount[0].partition("allocate ")[2]
