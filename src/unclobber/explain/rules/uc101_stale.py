"""UC101 for a tensor that was saved unobserved: torch's own check has refused it.

Nothing was recorded of the save, so the finding names only the backward.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import StaleEvidence
from ._wording import Wording

_BEFORE = Wording(
    "a tensor that was saved before watching began was overwritten",
    notes=("it was saved where unclobber did not look, so neither the save nor the write is known",),
    helps=(Help.UNWATCHED,),
    variant="unwatched",
)
_IN_TRANSFORM = Wording(
    "a tensor that was saved inside of a torch.func transform was overwritten",
    notes=("torch.func allows no hooks in its transforms, so neither the save nor the write is known",),
    helps=(Help.IN_TRANSFORM,),
    variant="unwatched",
)


def judge(evidence: StaleEvidence) -> Finding:
    """Return the finding for a save before watching began, or inside a torch.func transform."""
    texts = _IN_TRANSFORM if evidence.in_transform else _BEFORE
    return texts.finding("UC101", needed=evidence.needed, torch_message=evidence.torch_message)
