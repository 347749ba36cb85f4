"""The number of suppressed findings, by their reason."""

from __future__ import annotations

from collections import Counter

from ..model import Report, SuppressedBy
from ..model.text import plural
from ._cells import indented

_HOW: dict[SuppressedBy, str] = {
    "comment": "by comment",
    "settings": "by the settings",
    "baseline": "in the baseline",
}


def suppressed_line(report: Report) -> str:
    """Return a sentence that counts the suppressed findings; empty if there are none.

    Example:
        >>> from unclobber.model import Finding, Suppressed
        >>> one = Suppressed(Finding("UC102", "`d` was overwritten"), "comment")
        >>> suppressed_line(Report("clean", suppressed=(one, one)))
        '2 findings are suppressed: 2 by comment'
    """
    counts = Counter(suppressed.by for suppressed in report.suppressed)
    count = len(report.suppressed)
    if not count:
        return ""
    each = ", ".join(f"{counts[by]} {how}" for by, how in _HOW.items() if counts[by])
    return f"{plural(count, 'finding')} {'is' if count == 1 else 'are'} suppressed: {each}"


def notice_lines(report: Report, columns: int) -> list[str]:
    said = (*report.notices, suppressed_line(report))
    return [indented(f"unclobber: {notice}", columns, 4) for notice in said if notice]
