"""UC106 autocast-copy-stale: a weight was written in an autocast region, which reads a copy of the old one.

autocast casts each weight once in its outermost region. A step, or another write, inside of the region leaves
that copy as it was.
"""

from __future__ import annotations

from ...model import Finding, Help, Need, Save, Write
from ._words import tensor_name


def judge_copy(saved: Save, writes: tuple[Write, ...], need: Need, *, repaired: bool) -> Finding:
    """Return the finding for a weight whose old copy was read after a write.

    Args:
        saved: The weight, at the operation that read the copy.
        writes: The write.
        need: The backward call through that operation.
        repaired: Whether a new copy was made.
    """
    site = writes[0].site
    source = writes[0].optimizer or " ".join(site.source.split() if site is not None else ())
    written = f"`{source}`" if source else "the write"
    fixes = (Help.END_REGION.fix(write=written), Help.EMPTY_CACHE.fix(write=written))
    return Finding(
        code="UC106",
        message=f"{tensor_name(saved)} was overwritten inside of an autocast region, which goes on with "
        "its copy of the old values",
        saved=saved,
        writes=writes,
        needed=need,
        fixes=() if repaired else fixes,
        notes=()
        if repaired
        else ("torch reports nothing: values and gradients are those of the old weights",),
        repaired=repaired,
        labels=(("saved", "autocast's old copy is read here"), ("needed", "during this backward")),
    )
