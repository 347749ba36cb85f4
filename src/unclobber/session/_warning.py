"""The warning for a finding that torch is silent about: its explanation, at the user's line, once a place."""

from __future__ import annotations

import warnings
from typing import Any

from ..model import Finding, SilentWriteWarning, Site, cell_name, or_default
from ..report import text_of

_MOST_PLACES = 1000

_first_texts: dict[Any, str] = {}
"""First text of the warning of each place. A later text with other counts would count as another warning."""
_registries: dict[str, dict[Any, Any]] = {}
"""A stand-in for the ``__warningregistry__`` of each file's module, in which filters note past warnings."""


def warn(finding: Finding) -> None:
    """Warn with the whole explanation; with Python's usual filters once a place."""
    site = or_default(lambda: _blamed(finding), None)
    if site is None:
        warnings.warn(_text(finding), SilentWriteWarning, stacklevel=2)
        return
    saved = None if finding.saved is None or finding.saved.site is None else finding.saved.site
    place = (finding.code, site.path, site.line, saved and (saved.path, saved.line))
    text = _first_texts.get(place) or _text(finding)
    if len(_first_texts) < _MOST_PLACES:
        _first_texts[place] = text
    registry = _registries.setdefault(site.path, {})
    file = cell_name(site.path) or site.path
    # Not `warn`, whose stack level can't reach the write: it may have returned long before backward.
    warnings.warn_explicit(text, SilentWriteWarning, file, site.line, registry=registry)


def _text(finding: Finding) -> str:
    return f"{finding.message}\n\n{text_of(finding)}\n"  # a filter can match the warning by its sentence


def _blamed(finding: Finding) -> Site | None:
    if (write := finding.culprit) is not None:
        return write.site
    return None if finding.saved is None else finding.saved.site
