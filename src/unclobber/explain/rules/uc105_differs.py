"""UC105 recompute-differs: a checkpoint's second run saves other tensors than its first, and torch refuses.

torch's message has positions and shapes. The lines of the first difference are known, and what the code reads
besides its arguments and has changed since the forward began.
"""

from __future__ import annotations

from ...model import Finding, Help, Save
from ...model.text import listing
from .._evidence import RunsEvidence
from ._wording import Wording
from ._words import place

WORDING = Wording(
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


def judge(evidence: RunsEvidence | None) -> Finding | None:
    """Return the finding for a recomputation that torch refused; None without evidence."""
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
    return WORDING._replace(helps=tuple(helps)).finding(
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
    if save is None:
        return "no more tensor"
    return f"a {save.dtype} tensor of shape {'x'.join(map(str, save.shape)) or '()'}"


def _listed(names: object) -> str:
    return listing([f"`{name}`" for name in names])  # type: ignore[attr-defined]
