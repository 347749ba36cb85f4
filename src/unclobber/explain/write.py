"""The one builder of a ``Write``."""

from __future__ import annotations

from ..model import Site, Write
from ..source import Stack, resolve
from . import spelling


def at(site: Site | None, operation: str, expression: str | None = None) -> Write:
    """Return a write that torch can see and that touches the needed elements; the caller replaces what it
    knows better."""
    return Write(
        site=site,
        operation=operation,
        bumps_version=True,
        overlaps_needed=True,
        expression=expression,
    )


def by(operation: str, stack: Stack) -> Write:
    """Return such a write with its site and the user's expression for the written tensor, from ``stack``."""
    site = resolve(stack)
    return at(site, operation, spelling.spell_write(operation, stack))
