"""UC208 view-detached: ``detach_()`` on a view.

A view has no history of its own to drop: it follows from the history of its base, also after later writes to
the base. torch refuses for every view, whether gradients flow or not
(torch/csrc/autograd/VariableTypeManual.cpp, ``detach_``).
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import finding, operation, out_of_place, subject


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused ``detach_()`` of a view."""
    view = subject(evidence)
    by = f"`{evidence.how}`" if evidence.how and evidence.how != "[]" else "indexing"
    return finding(
        evidence,
        f"{view} is a view, and {operation(evidence)} would detach it in place",
        made=None if evidence.made is None else f"{by} makes a view here",
        written=f"detached in place here ({operation(evidence)})",
        why=(
            "the history of a view follows from that of the tensor whose memory it shows, so there is none "
            "of its own to drop",
        ),
        fixes=(
            out_of_place(evidence, Help.DETACH),
            Help.DETACH_BASE.fix(),
        ),
    )
