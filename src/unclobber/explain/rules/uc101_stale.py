"""UC101 for a tensor that was saved unobserved: torch's own check has refused it.

Nothing was recorded of the save, so the finding names only the backward.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import StaleEvidence


def judge(evidence: StaleEvidence) -> Finding:
    """Return the finding for a save before watching began, or inside a torch.func transform."""
    where = "before watching began"
    way_out = Help.UNWATCHED
    unknown = "it was saved where unclobber did not look, so neither the save nor the write is known"
    if evidence.in_transform:
        where = "inside of a torch.func transform"
        way_out = Help.IN_TRANSFORM
        unknown = "torch.func allows no hooks in its transforms, so neither the save nor the write is known"
    return Finding(
        code="UC101",
        variant="unwatched",
        message=f"a tensor that was saved {where} was overwritten",
        needed=evidence.needed,
        fixes=(way_out.fix(),),
        notes=(unknown,),
        torch_message=evidence.torch_message,
    )
