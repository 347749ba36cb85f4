"""UC207 overlapping-memory: an in-place operation on a tensor whose elements share memory.

``expand`` shows one element many times without copying it. A write to such a tensor would write the same
place several times, in no defined order. A write to one part of a tensor while reading an overlapping one has
the same problem.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import finding, operation, out_of_place, subject


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to overlapping memory."""
    name = subject(evidence)
    if evidence.variant == "input":
        return finding(
            evidence,
            f"{operation(evidence)} writes to {name} while it reads memory that overlaps it",
            made=None,
            written=f"reads and writes overlapping memory ({operation(evidence)})",
            why=("which elements are read before and which after they are written is not defined",),
            fixes=(
                Help.COPY_OF_INPUT.fix(),
                out_of_place(evidence, Help.NEW_MEMORY),
            ),
        )
    by = f"`{evidence.how}`" if evidence.how else "an expanded view"
    return finding(
        evidence,
        f"several elements of {name} lie at one place in memory, and {operation(evidence)} writes to them",
        made=None if evidence.made is None else f"{by} repeats elements here without copying them",
        why=("elements that share one place in memory can't be written one by one",),
        fixes=(
            Help.OWN_MEMORY.fix(),
            out_of_place(evidence),
        ),
    )
