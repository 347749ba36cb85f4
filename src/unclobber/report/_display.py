"""A report as an object that displays itself: HTML if the frontend can, text everywhere."""

from __future__ import annotations

from ..model import Report
from ._html import to_html_fragment
from ._terminal import RenderOptions
from ._text import report_to_text


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
        return to_html_fragment(self.report)
