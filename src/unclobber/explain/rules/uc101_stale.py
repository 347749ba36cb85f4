"""UC101 for a tensor that was saved unobserved: torch's own check has refused it.

Nothing was recorded of the save, so the finding names only the backward.
"""

from __future__ import annotations

from ...model import Finding, Fix
from .._evidence import StaleEvidence


def judge(evidence: StaleEvidence) -> Finding:
    """Return the finding for a save before watching began, or inside a torch.func transform."""
    if evidence.in_transform:
        return _in_transform(evidence)
    return Finding(
        code="UC101",
        variant="unwatched",
        message="a tensor that was saved before watching began was overwritten",
        needed=evidence.needed,
        fixes=(
            Fix(
                "enter `unclobber.watch()` before the forward pass to see which lines saved and wrote it, or "
                "`unclobber.guard()` to have the gradient of the program as it is"
            ),
        ),
        notes=("it was saved where unclobber did not look, so neither the save nor the write is known",),
        torch_message=evidence.torch_message,
    )


def _in_transform(evidence: StaleEvidence) -> Finding:
    """Return the finding for a save inside a torch.func transform."""
    return Finding(
        code="UC101",
        variant="unwatched",
        message="a tensor that was saved inside of a torch.func transform was overwritten",
        needed=evidence.needed,
        fixes=(
            Fix("use out-of-place operations in the function that is transformed; guard can't reach into it"),
        ),
        notes=("torch.func allows no hooks in its transforms, so neither the save nor the write is known",),
        torch_message=evidence.torch_message,
    )
