"""Findings without an explanation: only the certain facts, because an internal error prevented more."""

from __future__ import annotations

from dataclasses import replace

from ..model import CODES, Finding, Need, Save, Variant


def judge_without_story(
    code: str,
    fault: str,
    *,
    message: str | None = None,
    saved: Save | None = None,
    torch_message: str | None = None,
    repaired: bool = False,
    variant: Variant | None = None,
) -> Finding:
    """Return the finding for the facts that are certain.

    Args:
        code: Its code.
        fault: The reason why there is no explanation, as one sentence.
        message: The event, if the code alone says too little.
        saved: Shape, type and version of the tensor in question, its places unknown.
        torch_message: torch's message.
        repaired: Whether backward got the value as it was saved.
        variant: The variant of the code.
    """
    return Finding(
        code=code,
        variant=variant,
        message=message or CODES[code].bare_fact,
        saved=saved,
        notes=(fault,),
        torch_message=torch_message,
        repaired=repaired,
    )


def without_places(finding: Finding, fault: str) -> Finding:
    """Return a finding that can't be shown as it is, reduced to its sentence and torch's message, without
    places.

    Args:
        finding: The finding as judged.
        fault: The reason why it can't be shown, as one sentence.
    """
    return replace(
        finding,
        saved=None if finding.saved is None else replace(finding.saved, site=None),
        writes=(),
        needed=None if finding.needed is None else Need(None, finding.needed.nth, finding.needed.node),
        freed=None if finding.freed is None else Need(None, finding.freed.nth),
        fixes=(),
        notes=(*finding.notes, fault),
    )
