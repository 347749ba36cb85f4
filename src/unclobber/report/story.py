"""Which places a finding's story shows, and which one is the offending line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..model import Finding, Need, Save, Site, Write
from . import _labels as labels
from . import _words as words
from ._snippet import Mark
from ._sources import SourceRange, Sources

_MOST_WRITES = 3

Kind = Literal["made", "saved", "write", "freed", "needed"]


@dataclass(frozen=True, slots=True)
class FindingPlace:
    """One place of a story with a known line, whatever shows it: text, a page, an editor."""

    kind: Kind
    fact: Save | Write | Need
    site: Site
    span: SourceRange
    """Where to underline; often narrower or wider than the site."""
    label: str
    primary: bool = False
    """Whether it is an offending place or one that explains it."""


def offending_write(finding: Finding) -> Write | None:
    """The first write with a known line that touched a needed element, else the first known one."""
    known = [write for write in finding.writes if write.site]
    return next((write for write in known if write.overlaps_needed), known[0] if known else None)


def offending(finding: Finding) -> Site | None:
    """The line to name first: the write, for a freed graph the second backward; None if unknown."""
    if write := offending_write(finding):
        return write.site
    for place in (finding.needed, finding.saved):
        if place and place.site:
            return place.site
    return None


def place(site: Site | None) -> str:
    """``train.py:14``, or that it is not known."""
    return f"{words.path(site.path)}:{site.line}" if site else "an unknown line"


def refused_at(finding: Finding) -> Site | None:
    """The line at which torch refused an inference tensor that nobody wrote to; None for all else."""
    return offending(finding) if finding.variant in ("saved", "trained") else None


def made_at(finding: Finding) -> Site | None:
    """Where the leaf, the view or the inference tensor was made; for other codes, where it was saved."""
    site = None if finding.saved is None else finding.saved.site
    if site is not None and site is refused_at(finding):
        return None if finding.made is None else finding.made.site
    return site


def shown_writes(finding: Finding) -> tuple[list[Write], list[Write]]:
    """The writes that the excerpt shows, and those it only counts."""
    known = [write for write in finding.writes if write.site]
    if len(known) <= _MOST_WRITES:
        return known, []
    main = offending_write(finding)
    shown = {id(known[0]), id(main), id(known[-1])}
    return [w for w in known if id(w) in shown], [w for w in known if id(w) not in shown]


def places(finding: Finding, sources: Sources) -> list[FindingPlace]:
    """The places in the order of events: saved, written, freed, needed."""
    found: list[FindingPlace] = []
    if (made := finding.made) and made.site:
        found.append(
            FindingPlace("made", made, made.site, sources.locate(made.site), labels.made_label(finding))
        )
    if (saved := finding.saved) and saved.site:
        span = sources.locate(saved.site, saved.extent)
        primary = refused_at(finding) is saved.site
        found.append(
            FindingPlace("saved", saved, saved.site, span, labels.saved_label(finding, saved), primary)
        )
    main = offending_write(finding)
    for i, write in enumerate(shown_writes(finding)[0]):
        assert write.site is not None
        span = sources.locate(write.site, statement=True)
        label = labels.write_label(finding, write, again=i > 0)
        primary = write.overlaps_needed or write is main
        found.append(FindingPlace("write", write, write.site, span, label, primary))
    if (freed := finding.freed) and freed.site:
        span = sources.locate(freed.site)
        found.append(FindingPlace("freed", freed, freed.site, span, labels.freed_label(finding, freed)))
    if (needed := finding.needed) and needed.site:
        # else some write is to blame, even if its line is not known
        primary = finding.entry.stage == "graph" or refused_at(finding) is needed.site
        span = sources.locate(needed.site)
        label = labels.needed_label(finding, needed)
        found.append(FindingPlace("needed", needed, needed.site, span, label, primary))
    return found


def marks(finding: Finding, sources: Sources) -> list[Mark]:
    """The places as an excerpt marks them; the same words at the same place once."""
    found = [Mark(place.span, place.label, place.primary) for place in places(finding, sources)]
    loud = {(mark.span, mark.label) for mark in found if mark.primary}
    return list(dict.fromkeys(one for one in found if one.primary or (one.span, one.label) not in loud))


def in_stable_order(findings: tuple[Finding, ...]) -> list[Finding]:
    """By offending place as it is shown, then code: two runs which found the same say the same, whatever
    folder each ran in."""

    def key(finding: Finding) -> tuple[str, int, int, str, str]:
        site = offending(finding)
        where = (words.path(site.path), site.line, site.column) if site else ("", 0, 0)
        return (*where, finding.code, repr(finding))

    return sorted(findings, key=key)
