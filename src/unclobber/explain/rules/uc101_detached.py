"""A saved tensor that was detached in place, reported as UC101: no value is lost, but torch refuses.

torch keeps the tensor itself if the operation didn't make it, and reads its history when backward needs it.
``detach_`` has dropped that history.
"""

from __future__ import annotations

from ...model import Finding, Help, Write
from .._evidence import Evidence
from ._words import sentence


def judge(evidence: Evidence, write: Write) -> Finding:
    """Return the finding for ``write``, the ``detach_()``."""
    tensor = write.expression or "x"
    alone = write.site is not None and write.site.statement == f"{tensor}.detach_()"
    way_out = Help.DETACHED.fix(f"{tensor} = {tensor}.detach()" if alone else f"{tensor}.detach()")
    return Finding(
        code="UC101",
        variant="detached",
        message=sentence(evidence.save, "was detached in place"),
        saved=evidence.save,
        writes=(write,),
        needed=evidence.need,
        harmless=evidence.value_known
        and not evidence.changed
        and not evidence.moved
        and evidence.past_torch is None,
        fixes=(way_out,),
        notes=("torch asks a tensor that it has saved for its history, which `detach_` has dropped",),
        torch_message=evidence.torch_message,
        labels=(("write", f"detached in place here ({write.operation})"),),
    )
