"""UC101 for a tensor that was saved unobserved: torch's own check has refused it.

Nothing was recorded of the save, so the finding names only the backward.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import StaleEvidence
from ._wording import SPOILT, Wording
from ._words import saver, tensor_name, with_a_copy

_BEFORE = Wording(
    "a tensor that was saved before watching began was overwritten",
    notes=("it was saved where unclobber did not look, so neither the save nor the write is known",),
    helps=(Help.UNWATCHED,),
    variant="unwatched",
)
_COMPILED = Wording(
    SPOILT,
    {"needed": "torch.compile compiles it here"},
    notes=("torch.compile traces the backward while it compiles, and there torch refuses it",),
    variant="compiled",
)


def judge(evidence: StaleEvidence) -> Finding:
    """Return the finding for a save before watching began, or in compiled code."""
    if (save := evidence.saved) is not None:
        names = {"tensor": tensor_name(save), "how": "was overwritten", "saver": saver(save)}
        return _COMPILED.finding(
            "UC101",
            names | {"purpose": "for backward"},
            fixes=(with_a_copy(save),),
            saved=save,
            writes=evidence.writes,
            needed=evidence.needed,
            torch_message=evidence.torch_message,
        )
    return _BEFORE.finding("UC101", needed=evidence.needed, torch_message=evidence.torch_message)
