"""UC105 recompute-differs: a checkpoint's second run sees other values than its first.

A checkpoint runs its code again during backward. What the code reads besides its inputs (weights,
buffers, closures) must still be what it was, or the gradient belongs to another function.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...model import Finding, Help, Save
from ...model.text import listing
from .._evidence import Evidence, RunsEvidence
from ._wording import SILENT, Wording
from ._words import place, tensor_name

WORDING = Wording(
    "{tensor} {how} after the checkpoint's forward read it, and its recomputation reads it again",
    {"saved": "the checkpoint's forward ran here", "needed": "recomputed here"},
    notes=(
        "the recomputation reads it again at {read}",
        "torch compares shapes and dtypes of what is recomputed, never values",
    ),
    helps=(Help.LATER_OR_NEW, Help.CLONE_FOR_CHECKPOINT),
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
_DIFFERS = Wording(
    "the recomputation of a checkpoint {what}",
    {"saved": "the forward saved {forward} here", "needed": "recomputed here"},
    (
        "the recomputation saves {again} at {line}",
        "{values} since the forward began",
        "{tensors} since the forward began",
        "random numbers of {random} are others in the recomputation",
    ),
    variant="differs",
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


def judge_differs(evidence: RunsEvidence | None) -> Finding | None:
    """Return the finding for a recomputation that saved other tensors, if there is evidence of it.

    torch's message has positions and shapes. The lines of the first difference are known, and what the code
    reads besides its arguments and has changed since the forward began.
    """
    if evidence is None:
        return None
    again = evidence.again
    site = None if again is None else again.site
    values = [f"`{name}` has changed from {old} to {new}" for name, old, new in evidence.values]
    names = [name.removeprefix("len(").rstrip(")") for name, _, _ in evidence.values]
    names += evidence.written
    described = _described(evidence.forward), _described(again)
    what = "saves {1} where its forward saved {0}".format(*described)
    if described[0] == described[1]:
        what = "goes another way than its forward"
    helps = {"torch": [Help.KEEP_RANDOM], "random": [Help.TORCHS_RANDOM]}.get(evidence.random or "", [])
    if names:
        helps.insert(0, Help.PASS_TO_CHECKPOINT)
    return _DIFFERS._replace(helps=tuple(helps)).finding(
        "UC105",
        {
            "what": what,
            "forward": described[0],
            "again": described[1],
            "line": None if site is None else place(site, (evidence.forward, evidence.needed)),
            "values": listing(values) if values else None,
            "tensors": f"{_listed(evidence.written)} was written" if evidence.written else None,
            "random": {"torch": "torch", "random": "Python's `random`"}.get(evidence.random or ""),
            "names": _listed(names),
        },
        saved=evidence.forward,
        needed=evidence.needed,
        torch_message=evidence.torch_message,
    )


def _described(save: Save | None) -> str:
    return "no more tensor" if save is None else tensor_name(save)


def _listed(names: Iterable[str]) -> str:
    return listing([f"`{name}`" for name in names])
