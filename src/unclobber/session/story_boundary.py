"""The boundary between a verdict and its explanation.

The verdict (refuse, return or repair) reads no source file. The explanation is built afterwards, inside the
program's backward or write, which may be deep in a recursion, in one of its threads, or in a file that is
gone. A failure there is an internal error. It costs the explanation, which then says so, and nothing else.
Every finding is made in :func:`finding_or_fallback`, and every text in :func:`text_of` or :func:`rendered`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, TypeVar

from ..model import PACKAGE, Finding, InplaceError, Report, Save, Variant, or_default
from ..report import RenderOptions, ahead_to_text, summary_line, to_text

T = TypeVar("T")

_NOT_TOLD = "the story could not be told"
_NOT_SHOWN = "the story could not be shown"
_LONGEST = 200
_HERE = PACKAGE + os.sep


class KnownFacts(NamedTuple):
    """Facts on a conflict that are known without reading any source file."""

    code: str
    torch_message: str | None = None
    """Torch's sentence; None if torch doesn't refuse."""
    message: str | None = None
    """Sentence about the event; None if the code alone says enough."""
    saved: Save | None = None
    """Shape, type and version of the tensor, without places."""
    repaired: bool = False
    variant: Variant | None = None


def finding_or_fallback(
    make: Callable[[], Finding | None], known_facts: Callable[[], KnownFacts]
) -> Finding | None:
    """Return the finding with its explanation, or one without if an internal error prevents it.

    Args:
        make: Describes and judges the conflict; returns None if nothing is wrong.
        known_facts: Returns the known facts without reading a source file. Called after an error only.
    """
    try:
        return make()
    # Not `BaseException`: Ctrl-C ends the program (test_an_interrupt_is_no_fault).
    except Exception as error:
        fault = internal_error_in(_NOT_TOLD, error)
    # Imported late, because the command line renders reports without any rule.
    from ..judge import judge_without_story

    known = known_facts()
    return judge_without_story(
        known.code,
        fault,
        message=known.message,
        saved=known.saved,
        torch_message=known.torch_message,
        repaired=known.repaired,
        variant=known.variant,
    )


def internal_error_in(what: str, error: Exception) -> str:
    """Return a sentence about an internal error, without its full stop.

    It keeps no reference to the error, whose frames hold the program's tensors.
    """
    kind = type(error).__name__
    first = or_default(lambda: " ".join(str(error).split()), "")
    text = f"{kind}: {first}" if first else kind
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    place = or_default(lambda: _place(error.__traceback__), "")
    return f"{what}: {text}{place}; please report this fault of unclobber's"


def _place(trace: TracebackType | None) -> str:
    """Return `` (source/sites.py:214)``: the innermost line of unclobber's. Empty if there is none."""
    place = ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(_HERE):
            place = f" ({path.removeprefix(_HERE).replace(os.sep, '/')}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


# --- the explanation as text ----------------------------------------------------------------------


def error_of(finding: Finding, others: Sequence[Finding] = ()) -> InplaceError:
    """Return the exception that carries a finding. Its first line is torch's own.

    Args:
        finding: The finding on the refused tensor or write.
        others: Findings that the same backward would have refused next.
    """
    first = finding.torch_message or finding.message
    parts = [first, text_of(finding), *filter(None, [or_default(lambda: ahead_to_text(others), "")])]
    return InplaceError("\n\n".join(parts), finding)


def text_of(finding: Finding, *, width: int = 80, colour: bool = False) -> str:
    """Return the finding's text from ``report.to_text``, or its plainest form if that fails."""
    try:
        return to_text(finding, width=width, colour=colour)
    except Exception as error:
        from ..judge import without_places

        plainer = without_places(finding, internal_error_in(_NOT_SHOWN, error))
    severity = or_default(lambda: plainer.severity, "error")
    head = f"{severity}[{plainer.code}]: {plainer.message}"
    plainest = "\n".join([head, *(f"  = note: {note}" for note in plainer.notes)])
    return or_default(lambda: to_text(plainer, width=width, colour=colour), plainest)


def line_of(finding: Finding) -> str:
    """Return ``report.summary_line``, or just the code and message if that fails."""
    return or_default(lambda: summary_line(finding), f"SUMMARY: {finding.code} {finding.message}")


def rendered(render: Callable[[Report, RenderOptions], str], report: Report, options: RenderOptions) -> str:
    """Return a report in a format. A finding that can't be shown is shown without its places.

    Raises:
        Exception: any error of ``render`` for a report without its findings' places.
    """
    try:
        return render(report, options)
    except Exception:
        # Each alone, so that one bad finding leaves the others their places
        # (test_a_report_is_shown_although_one_finding_can_not_be).
        shown = tuple(_showable(finding, report, render, options) for finding in report.findings)
    return render(replace(report, findings=shown), options)


def _showable(
    finding: Finding,
    report: Report,
    render: Callable[[Report, RenderOptions], str],
    options: RenderOptions,
) -> Finding:
    """Return the finding, without its places if it can't be rendered alone with them."""
    try:
        render(replace(report, findings=(finding,)), options)
    except Exception as error:
        from ..judge import without_places

        return without_places(finding, internal_error_in(_NOT_SHOWN, error))
    return finding
