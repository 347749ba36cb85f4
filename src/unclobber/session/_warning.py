"""The warning for what torch is silent about: its story, at the user's line, once a place."""

from __future__ import annotations

import warnings
from typing import Any

from ..model import Finding, SilentWriteWarning, Site, asked, cell_name, culprit
from .telling import text_of

_MOST_PLACES = 1000

_told: dict[Any, str] = {}
"""The text of the warning of each place: with other counts in it, a later one would be another warning."""
_registries: dict[str, dict[Any, Any]] = {}
"""For each file what its module's ``__warningregistry__`` would be: the filters decide what comes again."""


def warn(finding: Finding) -> None:
    """Warn with the whole story; with Python's usual filters once a place."""
    site = asked(lambda: _blamed(finding), None)
    if site is None:
        warnings.warn(_text(finding), SilentWriteWarning, stacklevel=2)
        return
    saved = None if finding.saved is None or finding.saved.site is None else finding.saved.site
    place = (finding.code, site.path, site.line, saved and (saved.path, saved.line))
    text = _told.get(place) or _text(finding)
    if len(_told) < _MOST_PLACES:
        _told[place] = text
    registry = _registries.setdefault(site.path, {})
    file = cell_name(site.path) or site.path
    warnings.warn_explicit(text, SilentWriteWarning, file, site.line, registry=registry)


def _text(finding: Finding) -> str:
    """The sentence, so that a filter can know the warning by its beginning, then the story."""
    return f"{finding.message}\n\n{text_of(finding)}\n"


def _blamed(finding: Finding) -> Site | None:
    """The line that a warning points at."""
    write = culprit(finding.writes)
    if write is not None:
        return write.site
    return None if finding.saved is None else finding.saved.site
