"""Findings without a story: what is certain, where a fault of ours kept the rest from being told."""

from __future__ import annotations

from dataclasses import replace

from ..model import CODES, Finding, Need, Save, Variant


def judge_untold(
    code: str,
    fault: str,
    *,
    message: str | None = None,
    saved: Save | None = None,
    torch_message: str | None = None,
    repaired: bool = False,
    variant: Variant | None = None,
) -> Finding:
    """The finding for what is known to have happened.

    Args:
        code: The code that it has.
        fault: What kept the story from being told, as one sentence.
        message: What happened, where the code alone says too little.
        saved: Shape, type and version of the tensor in question, its places unknown.
        torch_message: What torch says.
        repaired: Whether backward was handed the value as it was saved.
        variant: In which of several ways the code came about.
    """
    return Finding(
        code=code,
        variant=variant,
        message=message or CODES[code].untold,
        saved=saved,
        notes=(fault,),
        torch_message=torch_message,
        repaired=repaired,
    )


def without_places(finding: Finding, fault: str) -> Finding:
    """A finding that can't be shown as it is: the sentence and what torch says, without any place.

    Args:
        finding: As it was judged.
        fault: What kept it from being shown, as one sentence.
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
