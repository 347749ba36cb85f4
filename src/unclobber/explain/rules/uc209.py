"""UC209 unbatched-written: under ``vmap`` a batch is written in place to a tensor that has none.

``vmap`` runs a function once for all samples: what is computed from its inputs has a hidden batch dimension.
A tensor that is made without them, or comes from outside, has no room for one value a sample.
"""

from __future__ import annotations

import re

from ...model import Finding, Fix, Help
from .._evidence import RefusalEvidence
from ._refused import WRITTEN, finding, out_of_place, subject
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
    "{tensor} has no batch under vmap, and {operation} writes a batch to it in place",
    {**WRITTEN, "saved": "{tensor} was made here, without a batch"},
    ("vmap runs the function once for all samples: only what is computed from its inputs has a batch",),
)
_FACTORY = re.compile(r"torch\.(zeros|ones|empty|full)(\(.+\))")


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a tensor without a batch."""
    made, batched = evidence.made, evidence.batched
    site, write = None if made is None else made.site, evidence.write
    if site is not None and write is not None and write.site is not None:
        site = site if site.function == write.site.function else None  # made outside
    factory = None if site is None else _FACTORY.fullmatch(site.source)
    fixes: list[Fix] = []
    if site is not None:
        # The new tensor has also the dtype and the device of the input.
        line = f"{batched}.new_{factory[1]}{factory[2]}" if batched and factory else None
        fixes.append(Help.NEW_WITH_BATCH.fix(line and site.statement.replace(site.source, line)))
    fixes.append(out_of_place(evidence))
    if site is None:
        fixes.append(Help.BATCH_OF_ITS_OWN.fix())
    # `out` of `out[0] = x[0]`
    tensor = subject(evidence) if made is None else quoted(made.expression, subject(evidence))
    return finding(evidence, WORDING, tuple(fixes), tensor=tensor)
