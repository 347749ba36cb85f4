"""Reports for people and for programs: one file per format.

A format is a function of a report; a new one is one file here and one line in ``FORMATS``. Nothing here
prints, decides anything or imports torch, because ``judge`` has settled the facts.
"""

from __future__ import annotations

from collections.abc import Callable

from ..model import Report
from ._ahead import ahead_to_text
from ._display import ReportDisplay
from ._github import to_github
from ._guarded import guard_lines
from ._html import to_html, to_html_fragment
from ._json import to_json, to_json_text
from ._options import RenderOptions
from ._sarif import to_sarif, to_sarif_text
from ._summary import summary_line
from ._suppressed import suppressed_line
from ._terminal import options_for
from ._text import report_to_text, to_text

__all__ = [
    "FORMATS",
    "RenderOptions",
    "ReportDisplay",
    "ahead_to_text",
    "guard_lines",
    "options_for",
    "render",
    "report_to_text",
    "story",
    "summary_line",
    "suppressed_line",
    "to_github",
    "to_html",
    "to_html_fragment",
    "to_json",
    "to_json_text",
    "to_sarif",
    "to_sarif_text",
    "to_text",
]

FORMATS: dict[str, Callable[[Report, RenderOptions], str]] = {
    "text": report_to_text,
    "json": to_json_text,
    "sarif": to_sarif_text,
    "github": to_github,
    "html": to_html,
}
"""Functions that render a report, by the name that ``--format`` takes."""


def render(report: Report, format: str, options: RenderOptions | None = None) -> str:
    """Return the report in one of ``FORMATS``, without a newline at its end.

    Raises:
        ValueError: There is no such format; the message lists those there are.

    Example:
        >>> render(Report("clean"), "text")
        'no findings: 0 saves, 0 writes to saved memory'
    """
    if format not in FORMATS:
        raise ValueError(f"no format {format!r}: there are {', '.join(FORMATS)}")
    return FORMATS[format](report, options or RenderOptions())
