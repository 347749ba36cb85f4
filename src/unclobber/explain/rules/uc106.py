"""UC106 autocast-copy-stale: a weight was written in an autocast region, which reads a copy of the old one.

autocast casts each weight once in its outermost region. A step, or another write, inside of the region leaves
that copy as it was.
"""

from __future__ import annotations

from ...model import Finding, Help, Need, Save, Write
from ._wording import Wording
from ._words import quoted, tensor_name

WORDING = Wording(
    "{tensor} was overwritten inside of an autocast region, which goes on with its copy of the old values",
    {"saved": "autocast's old copy is read here", "needed": "during this backward"},
    notes=("torch reports nothing: values and gradients are those of the old weights",),
    helps=(Help.END_REGION, Help.EMPTY_CACHE),
)


def judge_copy(saved: Save, writes: tuple[Write, ...], need: Need, *, repaired: bool) -> Finding:
    """Return the finding for a weight whose old copy was read after a write."""
    site = writes[0].site
    source = writes[0].optimizer or " ".join(site.source.split() if site is not None else ())
    names = {"tensor": tensor_name(saved), "write": quoted(source, "the write")}
    return WORDING.finding("UC106", names, saved=saved, writes=writes, needed=need, repaired=repaired)
