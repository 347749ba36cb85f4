"""A smaller script with the same fault: statements are left out while it stays."""

from __future__ import annotations

from collections.abc import Callable

from ._script import Script


def shrunk(script: Script, still: Callable[[Script], bool], *, tries: int = 100) -> Script:
    """Leave out as many statements as can be, long runs first.

    Args:
        script: A script for which ``still`` holds.
        still: Whether a smaller one shows the same fault; it may be no legal program at all.
        tries: How often to ask.

    Example:
        >>> shrunk(Script(("a = 1", "b = 2", "c = 3")), lambda s: "b = 2" in s.main).main
        ('b = 2',)
    """
    size = len(script.statements) // 2
    while size:
        start = len(script.statements) - size
        while start >= 0:
            if tries == 0:
                return script
            tries -= 1
            smaller = script.without(range(start, start + size))
            if still(smaller):
                script = smaller
                start = min(start, len(script.statements)) - size
            else:
                start -= size if size > 1 else 1
        size //= 2
    return script
