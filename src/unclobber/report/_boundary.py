"""Rendering that can't fail: what breaks in it costs a finding its places, never the program.

Every text of a finding is made in :func:`text_of` or in a format that :func:`never_failing` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..model import Finding, InplaceError, Need, Report, internal_error_in, or_default
from ._ahead import ahead_to_text
from ._terminal import RenderOptions
from ._text import summary_line, to_text

Render = Callable[[Report, RenderOptions], str]

_NOT_SHOWN = "the story could not be shown"


def error_of(finding: Finding, others: Sequence[Finding] = ()) -> InplaceError:
    """Return the exception that carries a finding. Its first line is torch's own."""
    first = finding.torch_message or finding.message
    ahead = or_default(lambda: ahead_to_text(others, after=[finding]), "")
    parts = filter(None, [first, text_of(finding), ahead])
    return InplaceError("\n\n".join(parts), finding)


def text_of(finding: Finding, options: RenderOptions | None = None) -> str:
    """Return the finding's text by ``to_text``, or its plainest form if that fails."""
    try:
        return to_text(finding, options)
    except Exception as error:
        plainer = _without_places(finding, error)
    severity = or_default(lambda: plainer.severity, "error")
    head = f"{severity}[{plainer.code}]: {plainer.message}"
    plainest = "\n".join([head, *(f"  = note: {note}" for note in plainer.notes)])
    return or_default(lambda: to_text(plainer, options), plainest)


def line_of(finding: Finding) -> str:
    return or_default(lambda: summary_line(finding), f"SUMMARY: {finding.code} {finding.message}")


def never_failing(render: Render) -> Render:
    """Return the format such that a finding that can't be shown is shown without its places.

    It still raises any error of ``render`` for a report without its findings' places.
    """

    def rendered(report: Report, options: RenderOptions) -> str:
        """Render the report, with its findings one by one if that fails."""
        try:
            return render(report, options)
        except Exception:
            # Each alone, so that one bad finding leaves the others their places
            # (test_a_report_is_shown_although_one_finding_can_not_be).
            shown = tuple(_showable(finding, report, render, options) for finding in report.findings)
        return render(replace(report, findings=shown), options)

    return rendered


def _showable(finding: Finding, report: Report, render: Render, options: RenderOptions) -> Finding:
    """Return the finding, without its places if it can't be rendered alone with them."""
    try:
        render(replace(report, findings=(finding,)), options)
    except Exception as error:
        return _without_places(finding, error)
    return finding


def _without_places(finding: Finding, error: Exception) -> Finding:
    """Return a finding that can't be shown as it is, reduced to its sentence and torch's message."""
    return replace(
        finding,
        saved=None if finding.saved is None else replace(finding.saved, site=None),
        writes=(),
        needed=None if finding.needed is None else Need(None, finding.needed.nth, finding.needed.node),
        freed=None if finding.freed is None else Need(None, finding.freed.nth),
        fixes=(),
        notes=(*finding.notes, internal_error_in(_NOT_SHOWN, error)),
    )
