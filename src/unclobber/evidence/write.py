"""The one builder of a ``Write``."""

from __future__ import annotations

from ..model import Site, Write
from ..source import Stack, sites, spelling


def at(site: Site | None, operation: str, expression: str | None = None) -> Write:
    """A write that torch can see and that touches what is needed: what is known better is to be replaced."""
    return Write(
        site=site,
        operation=operation,
        bumps_version=True,
        overlaps_needed=True,
        expression=expression,
    )


def by(operation: str, stack: Stack) -> Write:
    """The same, with its place and the user's expression for what was written looked up."""
    site = sites.resolve(stack)
    return at(site, operation, spelling.spell_write(site, operation, stack))
