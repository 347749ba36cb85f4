"""Words that several stages share."""

from __future__ import annotations

from collections.abc import Sequence


def listing(items: Sequence[str], limit: int = 4) -> str:
    """A list in words; what is beyond ``limit`` is counted, never one item alone.

    Example:
        >>> listing(["a"]), listing(["a", "b", "c"]), listing(list("abcdefg"), limit=3)
        ('a', 'a, b and c', 'a, b, c and 4 more')
    """
    if len(items) > limit + 1:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
