"""The explanation of a finding as text, in the manner of rustc: places first, then reason and fix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from ..model import Finding, Report
from . import _words as words
from ._ahead import ahead_to_text
from ._cells import NARROWEST, clean, clip, indented, shown_in, wrap
from ._cells import width as cells
from ._notes import helps, notes
from ._ranks import remarks
from ._rows import Row, to_string
from ._snippet import gutter_width, snippet
from ._sources import Sources
from ._terminal import RenderOptions
from .story import made_at, marks, offending, offending_write, place

_MOST_STORIES = 5
_MOST_CHECKED = 40
"""Most findings of a check that are shown in full; of more the first are, and a table lists the others."""
_FIRST_STORIES = 3
_MOST_FIXES = 5
_MOST_DIFF_LINES = 14


def to_text(finding: Finding, options: RenderOptions | None = None) -> str:
    """Return the whole explanation of one finding, at least 40 cells wide; no newline at its end.

    Example:
        >>> from unclobber.model import Finding
        >>> print(to_text(Finding("UC101", "`y` was overwritten")))
        error[UC101] saved-overwritten: `y` was overwritten
          |
          = help: keep the program as it is and run it under unclobber.guard()
          = more: unclobber explain UC101
    """
    options = options or RenderOptions()
    with shown_in(options.encoding):
        rows = _FindingText(finding, max(options.width, NARROWEST)).rows()
        return to_string(rows, colour=options.colour, links=options.links)


def report_to_text(report: Report, options: RenderOptions) -> str:
    with shown_in(options.encoding):
        return _report_to_text(report, options)


def _report_to_text(report: Report, options: RenderOptions) -> str:
    """Return the text for the stream whose encoding is set by ``shown_in``."""
    said = [indented(f"note: {text}", options.width, later=6) for text in remarks(report)]
    if report.checked is not None and not report.findings:
        files = words.plural(report.checked.files, "file")
        read = f"no findings in {files} ({words.plural(report.checked.lines, 'line')})"
        return "\n".join([indented(read, options.width, 0), *said])  # the docs say that it proves nothing
    if not report.findings:
        if report.outcome == "script-error":
            return "\n".join(["no findings: the program failed for reasons of its own", *said])
        saves, writes = words.plural(report.totals.saves, "save"), words.plural(report.totals.writes, "write")
        return "\n".join([f"no findings: {saves}, {writes} to saved memory", *said])
    own_findings = [finding for finding in report.findings if not finding.ahead] or list(report.findings)
    # A run's later findings mostly follow from its first, but findings in sources are independent.
    most = _MOST_CHECKED if report.checked is not None else _MOST_STORIES
    whole = own_findings if len(own_findings) <= most else own_findings[: max(_FIRST_STORIES, most - 2)]
    stories = [to_text(finding, options) for finding in whole]
    if left := own_findings[len(whole) :]:
        stories.append(_to_table(left))
    # A refusal further on in the same backward takes one line here; its explanation is in the other formats
    # (test_what_backward_would_refuse_next in tests/unit/report/test_report_text.py).
    if others := [finding for finding in report.findings if finding not in own_findings]:
        stories.append(ahead_to_text(others, after=own_findings, width=options.width))
    first = summary_line(report.findings[0])
    if len(report.findings) > 1:
        stories.append(words.listing(words.severities(report.findings)))
        first += f" (and {words.plural(len(report.findings) - 1, 'more finding')})"
    if said:
        stories.append("\n".join(said))
    return "\n\n".join([*stories, first])


def _to_table(findings: Sequence[Finding]) -> str:
    """Return one line for each code at each place, with its number of occurrences; no newline at the end.

    Example:
        >>> from unclobber.model import Finding
        >>> print(_to_table([Finding("UC102", "a", times=3), Finding("UC102", "b")]))
        2 more findings:
          code   name                        times  line
          UC102  saved-overwritten-silently      4  an unknown line
    """
    times: Counter[tuple[str, str, str]] = Counter()
    for finding in findings:
        times[finding.code, finding.name, clean(place(offending(finding)))] += finding.times
    widest = max(cells(name) for _, name, _ in times)
    lines = [f"{words.plural(len(findings), 'more finding')}:", f"  code   {'name':{widest}}  times  line"]
    for (code, name, where), count in times.most_common():
        lines.append(f"  {code}  {name:{widest}}  {count:5}  {where}")
    return "\n".join(lines)


def summary_line(finding: Finding) -> str:
    """Return one line for ``grep``, never wrapped: code, name, then the lines and their roles.

    Example:
        ``SUMMARY: UC101 saved-overwritten train.py:14 overwrites what train.py:12 saved``
    """
    write = offending_write(finding)
    sites = {
        "offending": offending(finding),
        "write": write.site if write else None,
        "saved": finding.saved.site if finding.saved else None,
        "made": made_at(finding),
        "needed": finding.needed.site if finding.needed else None,
        "freed": finding.freed.site if finding.freed else None,
    }

    def known(part: re.Match[str]) -> str:
        (name,) = re.findall(r"\{(\w+)\}", part[1])
        return part[1] if sites[name] else ""

    # First the brackets: a part of the sentence without its place would name an unknown line.
    sentence = re.sub(r"\[(.*)\]", known, _wording(finding))
    sentence = sentence.format(**{key: place(site) for key, site in sites.items()})
    return clean(f"SUMMARY: {finding.code} {finding.name} {sentence}")


def _wording(finding: Finding) -> str:
    entry = finding.entry
    usual = entry.summaries.get("harmless", entry.summary) if finding.harmless else entry.summary
    return usual if finding.variant is None else entry.summaries.get(finding.variant, usual)


class _FindingText:
    """The layout of one finding, for one width."""

    def __init__(self, finding: Finding, width: int) -> None:
        self.finding = finding
        self.width = width
        self.sources = Sources()
        self.marks = marks(finding, self.sources)
        self.gutter = gutter_width(self.marks)

    def rows(self) -> list[Row]:
        """Return all rows: title, excerpt, notes, helps, and where to read more."""
        finding = self.finding
        rows = self._title()
        rows += snippet(
            self.marks, self.sources, width=self.width, gutter=self.gutter, primary_style=finding.severity
        )
        rows.append([(" " * self.gutter + " |", "gutter")])
        for text in notes(finding):
            rows += self._item("note", text)
        rows += self._helps()
        rows += self._item("more", f"unclobber explain {finding.code}")
        return rows

    def _title(self) -> list[Row]:
        finding = self.finding
        head = f"{'repaired' if finding.repaired else finding.severity}[{finding.code}]"
        lines = wrap(f"{head} {finding.name}: {finding.message}", self.width, self.width - 4)
        first: Row = [(head, finding.severity), (lines[0][len(head) :], "title")]
        return [first, *([("    " + line, "title")] for line in lines[1:])]

    def _item(self, kind: str, text: str, mark: str = "", column: int = 0) -> list[Row]:
        """Return ``= note: text``, later lines indented under the first, and ``mark`` from ``column`` on."""
        head: Row = [(" " * (self.gutter + 1), ""), ("= ", "gutter"), (f"{kind}:", "strong"), (" ", "")]
        indent = self.gutter + 1 + len(f"= {kind}: ")
        lines = wrap(text, self.width - indent)
        rows: list[Row] = [[*head, (lines[0], "")]]
        rows += [[(" " * indent + line, "")] for line in lines[1:]]
        if mark:
            used = cells(lines[-1])
            if max(column, used + 2) + cells(mark) <= self.width - indent:
                rows[-1] += [(" " * (max(column, used + 2) - used), ""), (mark, "good")]
            else:
                rows += [[(" " * indent, ""), (line, "good")] for line in wrap(mark, self.width - indent)]
        return rows

    def _helps(self) -> list[Row]:
        """Return the fixes, each with its proof or its diff, and the number of fixes left out."""
        fixes = helps(self.finding)
        proved = [fix for fix in fixes if fix.verified and not fix.diff]
        column = max((cells(words.code_after(fix.title, fix.code)) for fix in proved), default=0) + 4
        marks = [words.verified(fix) for fix in fixes]
        room = self.width - self.gutter - len(" = help: ") - max(map(len, marks), default=0)
        rows: list[Row] = []
        for fix, mark in list(zip(fixes, marks, strict=True))[:_MOST_FIXES]:
            rows += self._item(
                "help", words.code_after(fix.title, fix.code), mark, column if column <= room else 0
            )
            if fix.edits and not fix.verified:
                indent = self.gutter + len(" = help: ")
                said = wrap(words.reliability(fix), self.width - indent)
                rows += [[(" " * indent, ""), (line, "dim")] for line in said]
            if fix.diff and not fix.code:
                rows += self._diff(fix.diff)
        if (more := len(fixes) - _MOST_FIXES) > 0:
            rows += self._item("help", f"{words.plural(more, 'further way')} out: --format json")
        return rows

    def _diff(self, diff: str) -> list[Row]:
        """Return the diff, indented; without the file's name if it has only one file."""
        lines = diff.rstrip("\n").split("\n")
        heads = [i for i, (a, b) in enumerate(pairwise(lines)) if a[:4] == "--- " and b[:4] == "+++ "]
        # The header of the story has named the only file already.
        if heads == [0]:
            lines = lines[2:]
        indent = " " * (self.gutter + 5)
        # One line short of the limit, because the row that counts the others takes the last.
        shown = lines if len(lines) <= _MOST_DIFF_LINES else lines[: _MOST_DIFF_LINES - 1]
        rows: list[Row] = []
        for line in shown:
            style = {"+": "added", "-": "removed", "@": "dim"}.get(line[:1], "")
            # What is to be written in the file is never cut.
            text = line if style == "added" else clip(line, self.width - len(indent))
            rows.append([(indent, ""), (text, style)])
        if len(shown) < len(lines):
            rows.append([(f"{indent}… {words.plural(len(lines) - len(shown), 'more line')}", "dim")])
        return rows
