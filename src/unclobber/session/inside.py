"""How deep in contexts a thread is."""

from __future__ import annotations

from ..hooks import saves


def depth() -> int:
    """How many contexts this thread has entered and not left."""
    return len(saves.active())
