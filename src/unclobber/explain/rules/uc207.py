"""UC207 overlapping-memory: an in-place operation on a tensor whose elements share memory.

``expand`` shows one element many times without copying it. A write to such a tensor would write the same
place several times, in no defined order. A write to one part of a tensor while reading an overlapping one has
the same problem.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import WRITTEN, finding, out_of_place
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
    "several elements of {view} lie at one place in memory, and {operation} writes to them",
    {**WRITTEN, "saved": "{by} repeats elements here without copying them"},
    ("elements that share one place in memory can't be written one by one",),
)
_INPUT = Wording(
    "{operation} writes to {view} while it reads memory that overlaps it",
    {"write": "reads and writes overlapping memory ({operation})"},
    ("which elements are read before and which after they are written is not defined",),
)


def judge(evidence: RefusalEvidence) -> Finding:
    if evidence.variant == "input":
        return finding(evidence, _INPUT, (Help.COPY_OF_INPUT.fix(), out_of_place(evidence, Help.NEW_MEMORY)))
    by = quoted(evidence.how, "an expanded view")
    return finding(evidence, WORDING, (Help.OWN_MEMORY.fix(), out_of_place(evidence)), by=by)
