"""The places that a finding's explanation shows, and the offending line among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..model import Finding, Need, Save, Site, Write
from . import _labels as labels
from . import _words as words
from ._snippet import Mark
from ._sources import Sources

_MOST_WRITES = 3

Kind = Literal["made", "saved", "write", "freed", "needed"]
Fact = Save | Write | Need


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingPlace(Mark):
    """A place of an explanation with a known line, for any format: text, a page, an editor.

    Its span is often narrower or wider than its site.
    """

    number: int  # its position among the events
    kind: Kind
    fact: Fact
    site: Site


def offending_write(finding: Finding) -> Write | None:
    known = [write for write in finding.writes if write.site]
    return next((write for write in known if write.overlaps_needed), known[0] if known else None)


def offending(finding: Finding) -> Site | None:
    return next(iter(finding.blamed), None)


def offending_place(finding: Finding, shown: list[FindingPlace]) -> FindingPlace | None:
    site = offending(finding)
    return next((place for place in shown if place.site is site), None)


def place(site: Site | None) -> str:
    return f"{words.path(site.path)}:{site.line}" if site else "an unknown line"


def refused_at(finding: Finding) -> Site | None:
    """Return the line at which torch refused an inference tensor without any write, or None."""
    return offending(finding) if finding.variant in ("saved", "trained") else None


def made_at(finding: Finding) -> Site | None:
    """Return where the leaf, view or inference tensor was made; for other codes, where it was saved."""
    site = None if finding.saved is None else finding.saved.site
    if site is not None and site is refused_at(finding):
        return None if finding.made is None else finding.made.site
    return site


def counted_writes(finding: Finding) -> list[Write]:
    """Return the writes that no excerpt shows and a note counts."""
    known = [write for write in finding.writes if write.site]
    # By identity, because a loop's writes may be equal, and the first of them is the one to show.
    shown = {id(write) for write in (*known[:1], offending_write(finding), *known[-1:])}
    return [w for w in known if id(w) not in shown] if len(known) > _MOST_WRITES else []


def events(finding: Finding) -> list[tuple[Kind, Fact]]:
    """Return the facts of a finding in the order of events, without the writes that are only counted."""
    hidden = set(map(id, counted_writes(finding)))
    facts: list[tuple[Kind, Fact | None]] = [("made", finding.made), ("saved", finding.saved)]
    facts += [("write", write) for write in finding.writes if id(write) not in hidden]
    facts += [("freed", finding.freed), ("needed", finding.needed)]
    return [(kind, fact) for kind, fact in facts if fact is not None]


def places(finding: Finding, sources: Sources) -> list[FindingPlace]:
    """Return the places with known lines, in the order of events."""
    shown: list[FindingPlace] = []
    main, refused = offending_write(finding), refused_at(finding)
    for number, (kind, fact) in enumerate(events(finding)):
        if (site := fact.site) is None:
            continue
        part = fact.extent if isinstance(fact, Save) and kind == "saved" else None
        if isinstance(fact, Write):
            # If no write hit a needed element, the first is underlined as the offending one.
            primary = fact.overlaps_needed or fact is main
        else:
            # in all other cases a write is the offending place, even if its line is not known
            of_graph = kind == "needed" and finding.entry.stage == "graph"
            primary = of_graph or (kind in ("saved", "needed") and refused is site)
        again = any(place.kind == "write" for place in shown)
        span = sources.locate(site, part, statement=kind == "write")
        said = labels.label(finding, kind, fact, again=again)
        shown.append(FindingPlace(span, said, primary, number=number, kind=kind, fact=fact, site=site))
    return shown


def marks(finding: Finding, sources: Sources) -> list[Mark]:  # without repeated labels at one place
    all_marks = [Mark(place.span, place.label, place.primary) for place in places(finding, sources)]
    # Of two writes by one line one may hit and one miss: the same words twice would be two rows.
    loud = {(mark.span, mark.label) for mark in all_marks if mark.primary}
    return list(
        dict.fromkeys(mark for mark in all_marks if mark.primary or (mark.span, mark.label) not in loud)
    )


def in_stable_order(findings: tuple[Finding, ...]) -> list[Finding]:
    """Return the findings sorted by offending place as it is shown, then code: alike in any folder."""

    def key(finding: Finding) -> tuple[str, int, int, str, str]:
        site = offending(finding)
        where = (words.path(site.path), site.line, site.column) if site else ("", 0, 0)
        # `repr` last, so that even two findings of one line and code have an order.
        return (*where, finding.code, repr(finding))

    return sorted(findings, key=key)
