"""The boundary between a verdict and its story.

What is to be refused, handed back or repaired is decided without a look at any source. The story is made
afterwards, inside a backward or a write of the program's, which may be deep in its own recursion, in one of
its threads, at files that are gone. Whatever fails there is a fault of ours: it costs the story, which then
says so, and nothing else. Every story is made in :func:`told`, and every text in :func:`text_of` or
:func:`rendered`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, TypeVar

from ..model import PACKAGE, Finding, InplaceError, Report, Save, Variant, asked
from ..report import RenderOptions, ahead_to_text, summary_line, to_text

T = TypeVar("T")

_NOT_TOLD = "the story could not be told"
_NOT_SHOWN = "the story could not be shown"
_LONGEST = 200
_HERE = PACKAGE + os.sep


class Certain(NamedTuple):
    """What is known of a conflict before anything is looked up."""

    code: str
    torch_message: str | None = None
    """What torch says, where it refuses."""
    message: str | None = None
    """What happened, where the code alone says too little."""
    saved: Save | None = None
    """Shape, type and version of the tensor, without places."""
    repaired: bool = False
    variant: Variant | None = None


def told(make: Callable[[], Finding | None], certain: Callable[[], Certain]) -> Finding | None:
    """The finding with its story, or without where a fault of ours prevents it.

    Args:
        make: Describes and judges; None where there is nothing wrong.
        certain: What is known all the same; asked for after a fault only, and must not look anything up.
    """
    try:
        return make()
    except Exception as error:
        fault = fault_in(_NOT_TOLD, error)
    from ..judge import judge_untold

    known = certain()
    return judge_untold(
        known.code,
        fault,
        message=known.message,
        saved=known.saved,
        torch_message=known.torch_message,
        repaired=known.repaired,
        variant=known.variant,
    )


def fault_in(what: str, error: Exception) -> str:
    """One sentence on a fault of ours, without its full stop. Keeps nothing of the error itself: its frames
    hold the program's tensors."""
    kind = type(error).__name__
    first = asked(lambda: " ".join(str(error).split()), "")
    text = f"{kind}: {first}" if first else kind
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    place = asked(lambda: _place(error.__traceback__), "")
    return f"{what}: {text}{place}; please report this fault of unclobber's"


def _place(trace: TracebackType | None) -> str:
    """`` (source/sites.py:214)``: the innermost line of ours."""
    place = ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(_HERE):
            place = f" ({path.removeprefix(_HERE).replace(os.sep, '/')}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


# --- the story as text ----------------------------------------------------------------------------


def error_of(finding: Finding, others: Sequence[Finding] = ()) -> InplaceError:
    """The exception that carries a finding; its first line is torch's own.

    Args:
        finding: What is refused.
        others: What the same backward would have refused next.
    """
    first = finding.torch_message or finding.message
    told = [first, text_of(finding), *filter(None, [asked(lambda: ahead_to_text(others), "")])]
    return InplaceError("\n\n".join(told), finding)


def text_of(finding: Finding, *, width: int = 80, colour: bool = False) -> str:
    """The story as ``report.to_text`` tells it, in its plainest form where that fails."""
    try:
        return to_text(finding, width=width, colour=colour)
    except Exception as error:
        from ..judge import without_places

        plainer = without_places(finding, fault_in(_NOT_SHOWN, error))
    severity = asked(lambda: plainer.severity, "error")
    head = f"{severity}[{plainer.code}]: {plainer.message}"
    plainest = "\n".join([head, *(f"  = note: {note}" for note in plainer.notes)])
    return asked(lambda: to_text(plainer, width=width, colour=colour), plainest)


def line_of(finding: Finding) -> str:
    """``report.summary_line``, or the little that is certain."""
    return asked(lambda: summary_line(finding), f"SUMMARY: {finding.code} {finding.message}")


def rendered(render: Callable[[Report, RenderOptions], str], report: Report, options: RenderOptions) -> str:
    """A report in a format; a finding that can't be shown is shown without its places.

    Raises:
        Exception: what ``render`` raises of a report without any finding's places.
    """
    try:
        return render(report, options)
    except Exception:
        shown = tuple(_showable(finding, report, render, options) for finding in report.findings)
    return render(replace(report, findings=shown), options)


def _showable(
    finding: Finding,
    report: Report,
    render: Callable[[Report, RenderOptions], str],
    options: RenderOptions,
) -> Finding:
    try:
        render(replace(report, findings=(finding,)), options)
    except Exception as error:
        from ..judge import without_places

        return without_places(finding, fault_in(_NOT_SHOWN, error))
    return finding
