"""UC207 overlapping-memory: an in-place operation on a tensor whose elements share memory.

``expand`` shows one element many times without copying it. A write to such a tensor would write the same
place several times, in no defined order. A write to one part of a tensor while reading an overlapping one has
the same problem.
"""

from __future__ import annotations

from ...model import Finding, Fix
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
                Fix("read from a copy: call `.clone()` on the input that overlaps"),
                out_of_place(evidence, "or write into a new tensor"),
            ),
        )
    by = f"`{evidence.how}`" if evidence.how else "an expanded view"
    return finding(
        evidence,
        f"several elements of {name} lie at one place in memory, and {operation(evidence)} writes to them",
        made=None if evidence.made is None else f"{by} repeats elements here without copying them",
        why=("elements that share one place in memory can't be written one by one",),
        fixes=(
            Fix("give it memory of its own before writing: `.clone()` after the expand"),
            out_of_place(evidence),
        ),
    )
