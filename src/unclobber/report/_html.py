"""A self-contained page: each finding's explanation with its source, and the history of its memory.

Source and names may contain anything: everything goes through autoescape, control characters are replaced,
and the page forbids itself scripts and the network. Of the source, only the shown lines are embedded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ..model import VERSION, Finding, Fix, Report
from ..model.pages import page
from . import _words as words
from ._cells import clean, clean_line, clean_source
from ._excerpt import Excerpt, excerpts
from ._notes import helps, notes
from ._ranks import remarks
from ._sources import Sources
from ._terminal import RenderOptions
from ._text import report_to_text
from ._timeline import Timeline, timeline
from .story import places

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_EVENTS = 9
"""Limit of events that source and timeline link: saved, three writes and those of unknown lines, freed,
needed. The page still shows events beyond it."""

_PAGE = 76  # columns of a code's page in the report


@dataclass(frozen=True, slots=True)
class _FindingPage:
    """The template's data on one finding."""

    finding: Finding
    anchor: str
    timeline: Timeline
    excerpts: list[Excerpt]
    notes: list[str]
    fixes: list[Fix]
    has_page: bool  # whether the code's page is in this card: only the first one of the code has it


def to_html(report: Report, options: RenderOptions | None = None) -> str:
    """Return the whole page.

    Example:
        >>> "No findings" in to_html(Report("clean"))
        True
    """
    return _rendered("page.html", report)


def _stories(report: Report) -> list[_FindingPage]:
    """Build the template's data on each finding."""
    import hashlib  # here, because it loads OpenSSL

    first = {finding.code: finding for finding in reversed(report.findings)}
    stories: list[_FindingPage] = []
    for finding in report.findings:
        sources = Sources()
        story = _FindingPage(
            finding,
            # From the finding and not from its position, so that a link to a story holds in a later report.
            anchor="uc-" + hashlib.sha256(repr(finding).encode("utf-8", "replace")).hexdigest()[:8],
            timeline=timeline(finding),
            excerpts=excerpts(places(finding, sources), sources),
            notes=notes(finding),
            fixes=helps(finding),
            has_page=first[finding.code] is finding,
        )
        stories.append(story)
    return stories


def _summary(report: Report) -> str:  # `2 errors and 1 warning`
    if report.findings:
        return words.listing(words.severities(report.findings))
    failed = report.outcome == "script-error"
    return "No findings: the program failed for reasons of its own" if failed else "No findings"


def _facts(report: Report) -> list[tuple[str, str]]:
    """Return the facts of the run as (name, value) rows."""
    totals, said = report.totals, [("note", text) for text in remarks(report)]
    if report.checked is not None:
        files, lines = words.plural(report.checked.files, "file"), words.plural(report.checked.lines, "line")
        return [("checked", f"{files}, {lines}; nothing was run"), *said]
    return [
        *([("program", " ".join(report.command))] if report.command else []),
        ("torch", report.torch_version or "not known"),
        ("tensors saved", f"{totals.saves:,}"),
        ("writes to saved memory", f"{totals.writes:,}"),
        ("conflicts", f"{totals.conflicts:,}"),
        *([("kept", words.size(totals.kept_bytes))] if totals.kept_bytes else []),
        *([("ranks", str(len(report.ranks)))] if report.ranks else []),
        *([("processes", str(1 + len(report.processes)))] if report.processes else []),
        *said,
    ]


class ReportDisplay:
    """Display of a report in notebooks, so that the report itself stays plain data.

    Example:
        >>> ReportDisplay(Report("clean"))
        no findings: 0 saves, 0 writes to saved memory
    """

    def __init__(self, report: Report) -> None:
        self.report = report

    def __repr__(self) -> str:
        return report_to_text(self.report, RenderOptions())

    def _repr_html_(self) -> str:
        return _rendered("fragment.html", self.report)


# --- filters of the templates ---------------------------------------------------------------------


def _ticks(text: str) -> list[tuple[str, bool]]:
    """Cut a text at backticks; each part has True if it was between two.

    Example:
        >>> _ticks("`d` was overwritten")
        [('d', True), (' was overwritten', False)]
    """
    parts = re.split(r"`([^`]*)`", clean_line(text))
    return [(part, i % 2 == 1) for i, part in enumerate(parts) if part]


def _diff(diff: str) -> list[tuple[str, str]]:
    kinds = {"+": "added", "-": "removed", "@": "hunk"}
    return [
        ("file" if line[:4] in ("--- ", "+++ ") else kinds.get(line[:1], ""), clean_source(line))
        for line in diff.rstrip("\n").split("\n")
    ]


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return the template environment, created once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unclobber.report"),
        autoescape=True,
        # A misspelt name in a template must fail a test, not leave a gap in the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ticks": _ticks, "diff": _diff, "clean": clean, "verified": words.verified}
    environment.filters |= {"reliability": words.reliability, "page": lambda code: page(code).plain(_PAGE)}
    environment.globals |= {"version": VERSION, "numbers": range(MOST_EVENTS)}
    return environment


def _rendered(template: str, report: Report) -> str:
    values = {"stories": _stories(report), "summary": _summary(report), "facts": _facts(report)}
    return _environment().get_template(template).render(values)
