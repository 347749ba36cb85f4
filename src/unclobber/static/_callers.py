"""Functions that other files call, and only without gradients: nothing is recorded there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ..model import Finding, or_default
from ..syntax import SourcePart
from ._index import index_of

_NOT_NAMED = ("", "<module>", "__init__", "__call__", "forward")  # no call has the name of such a function
_Place = tuple[str, str]
"""The path and the bare name of a function."""


def recorded(findings: Sequence[Finding], paths: Iterable[str]) -> Iterator[Finding]:
    """Yield the findings but those in functions that files of these absolute paths call, and only without
    gradients (``load_from`` of vision transformers). Such a file has the name of the function's module."""
    places = list(map(_place, findings))
    calls: dict[_Place, list[bool]] = {place: [] for place in places if place[1] not in _NOT_NAMED}
    for path in paths if calls else ():
        text = SourcePart.joined(*or_default(partial(SourcePart.all_of, path), list[SourcePart]()))
        for (home, name), off in calls.items():
            is_user = path == home or os.path.basename(home).removesuffix(".py") in text
            if is_user and f"{name}(" in text and (index := or_default(partial(index_of, text, path), None)):
                off += [is_off for called, _, is_off in index.calls if called == name]
    for finding, place in zip(findings, places, strict=True):
        if not all(known := calls.get(place, [])) or not known:
            yield finding


def _place(finding: Finding) -> _Place:  # of the write, if no backward of its file needs it
    site = finding.writes[0].site if finding.writes and finding.needed is None else None
    return ("", "") if site is None else (site.path, site.function.rpartition(".")[2])
