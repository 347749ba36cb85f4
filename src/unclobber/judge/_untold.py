"""Findings without a story: what is certain, where a fault of ours kept the rest from being told."""

from __future__ import annotations

from dataclasses import replace

from ..model import Finding, Need, Save

_SENTENCES = {
    "UC101": "a saved tensor was overwritten before backward needed it",
    "UC102": "a saved tensor was overwritten unseen by torch",
    "UC103": "a tensor that a custom Function left on ctx for backward was overwritten",
    "UC104": "a gradient was changed in place while another consumer still needs it",
    "UC105": "a tensor was overwritten between a checkpoint's forward and its recomputation, which reads it",
    "UC201": "a leaf that requires grad was to be written in place",
    "UC202": "a view of a leaf that requires grad was to be written in place",
    "UC203": "one of several views that one call returned was to be written in place, or was used after that",
    "UC204": "a view made with grad mode off was to be written in place, or was used after that",
    "UC205": "a view that a custom Function returned was to be written in place, or was used after that",
    "UC206": "a tensor made in inference mode was used where autograd must know of it",
    "UC207": "a tensor of which several elements share memory was to be written in place",
    "UC208": "a view was to be detached in place",
    "UC301": "this backward goes on into a graph that is freed already",
}


def judge_untold(
    code: str,
    fault: str,
    *,
    message: str | None = None,
    saved: Save | None = None,
    torch_message: str | None = None,
    repaired: bool = False,
) -> Finding:
    """The finding for what is known to have happened.

    Args:
        code: The code that it has.
        fault: What kept the story from being told, as one sentence.
        message: What happened, where the code alone says too little.
        saved: Shape, type and version of the tensor in question, its places unknown.
        torch_message: What torch says.
        repaired: Whether backward was handed the value as it was saved.
    """
    return Finding(
        code=code,
        message=message or _SENTENCES[code],
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
