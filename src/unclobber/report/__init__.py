"""Reports for people and for programs: one file per format.

A format is a function of a report; a new one is one file here and one line in ``FORMATS``. Nothing here
prints, decides anything or imports torch, because ``explain`` has settled the facts.
"""

from __future__ import annotations

from ._boundary import Render, error_of, line_of, never_failing, text_of
from ._github import to_github
from ._guarded import guard_lines
from ._html import ReportDisplay, to_html
from ._json import to_json, to_json_text
from ._ranks import notice_lines
from ._sarif import to_sarif_text
from ._terminal import RenderOptions, options_for
from ._text import report_to_text

__all__ = [
    "FORMATS", "RenderOptions", "ReportDisplay", "error_of", "guard_lines", "line_of", "notice_lines",
    "options_for", "text_of", "to_json",
]  # fmt: skip

FORMATS: dict[str, Render] = {
    name: never_failing(render)
    for name, render in (
        ("text", report_to_text),
        ("json", to_json_text),
        ("sarif", to_sarif_text),
        ("github", to_github),
        ("html", to_html),
    )
}
"""Functions that render a report, by the name that ``--format`` takes."""
