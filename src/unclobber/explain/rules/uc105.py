"""UC105 recompute-differs: a checkpoint's second run sees other values than its first.

A checkpoint runs its code again during backward. What the code reads besides its inputs (weights,
buffers, closures) must still be what it was, or the gradient belongs to another function.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import Evidence
from ._wording import SILENT, Wording
from ._words import place

WORDING = Wording(
    "{tensor} {how} after the checkpoint's forward read it, and its recomputation reads it again",
    {"saved": "the checkpoint's forward ran here", "needed": "recomputed here"},
    notes=(
        "the recomputation reads it again at {read}",
        "torch compares shapes and dtypes of what is recomputed, never values",
    ),
    helps=(Help.AFTER_CHECKPOINT, Help.CLONE_FOR_CHECKPOINT),
    variant="recomputed",
)
_CACHED = Wording(
    "{tensor} {how} after selective checkpointing cached what {operation} returned, and its recomputation "
    "gets it from there",
    {"saved": "{operation} returned it here, and the checkpoint cached it"},
    notes=("{silent}",),
    helps=(Help.CLONE_CACHED, Help.RECOMPUTE_IT),
    variant="cached",
)
_STEPPED = WORDING._replace(helps=(Help.STEP_AFTER_CHECKPOINT, Help.CLONE_FOR_CHECKPOINT))


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding for an overwritten tensor that a recomputation reads again, or None."""
    if evidence.kind == "cache":
        message = evidence.torch_message
        cached = {"operation": evidence.save.operation, "silent": None if message else SILENT}
        return _CACHED.of_saved("UC105", evidence, cached, torch_message=message)
    if evidence.kind != "recompute":
        return None
    write, read = evidence.culprit, evidence.read
    names = {
        "read": place(read, (evidence.save, evidence.need)) if read and not read.library else None,
        "step": None if write is None else write.optimizer,
    }
    return (_STEPPED if names["step"] else WORDING).of_saved("UC105", evidence, names)
