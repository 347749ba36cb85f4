"""The number of contexts that a thread is in."""

from __future__ import annotations

from ..observe.hooks import saves


def depth() -> int:
    """Return how many contexts this thread has entered and not left."""
    return len(saves.active())
