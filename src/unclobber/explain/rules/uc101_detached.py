"""A saved tensor that was detached in place, reported as UC101: no value is lost, but torch refuses.

torch keeps the tensor itself if the operation didn't make it, and reads its history when backward needs it.
``detach_`` has dropped that history.
"""

from __future__ import annotations

from ...model import Finding, Help, Write
from .._evidence import Evidence
from ._wording import SPOILT, Wording

WORDING = Wording(
    SPOILT,
    {"write": "detached in place here ({operation})"},
    notes=("torch asks a tensor that it has saved for its history, which `detach_` has dropped",),
    helps=(Help.DETACHED,),
    variant="detached",
)


def judge(evidence: Evidence, write: Write) -> Finding:
    """Return the finding for ``write``, the ``detach_()``."""
    tensor = write.expression or "x"
    alone = write.site is not None and write.site.statement == f"{tensor}.detach_()"
    instead = f"{tensor} = {tensor}.detach()" if alone else f"{tensor}.detach()"
    unchanged = evidence.value_known and not evidence.changed and not evidence.moved
    return WORDING.of_saved(
        "UC101",
        evidence,
        {"how": "was detached in place", "operation": write.operation},
        lines={Help.DETACHED: instead},
        writes=(write,),
        harmless=unchanged and evidence.past_torch is None,
        torch_message=evidence.torch_message,
        kept_bytes=0,
    )
