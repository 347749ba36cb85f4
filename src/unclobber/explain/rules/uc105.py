"""UC105 recompute-differs: a checkpoint's second run sees other values than its first.

A checkpoint runs its code again during backward. What the code reads besides its inputs (weights,
buffers, closures) must still be what it was, or the gradient belongs to another function.
"""

from __future__ import annotations

from ...model import Finding, Help, culprit, touching
from .._evidence import Evidence
from ._words import place, tensor_name


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding for an overwritten tensor that a recomputation reads again; None for other
    evidence."""
    if evidence.kind != "recompute":
        return None
    how = "was given other memory" if evidence.storage_swapped else "was overwritten"
    write = culprit(evidence.writes)
    stepped = None if write is None else write.optimizer
    later = Help.STEP_AFTER_CHECKPOINT.fix(step=stepped) if stepped else Help.AFTER_CHECKPOINT.fix()
    return Finding(
        code="UC105",
        variant="recomputed",
        message=f"{tensor_name(evidence.save)} {how} after the checkpoint's forward read it, "
        "and its recomputation reads it again",
        saved=evidence.save,
        writes=touching(evidence.writes),
        needed=evidence.need,
        fixes=(later, Help.CLONE_FOR_CHECKPOINT.fix()),
        notes=(*_read(evidence), "torch compares shapes and dtypes of what is recomputed, never values"),
        kept_bytes=evidence.kept_bytes,
        labels=(("saved", "the checkpoint's forward ran here"), ("needed", "recomputed here")),
    )


def _read(evidence: Evidence) -> tuple[str, ...]:
    """Return a note on the user's own line that reads the tensor again; empty if a library reads it."""
    if evidence.read is None or evidence.read.library:
        return ()
    return (f"the recomputation reads it again at {place(evidence.read, (evidence.save, evidence.need))}",)
