"""UC204 no-grad-view-written: an in-place operation with grad mode on, on a view made with it off.

It is ambiguous whether the write is to be recorded for the view's base: the view says no, the write says yes.
torch refuses to guess.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import finding, operation, out_of_place, subject


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a view made under no_grad or inference mode."""
    off = "inference mode" if evidence.variant == "inference_mode" else "no_grad"
    view = subject(evidence)
    return finding(
        evidence,
        f"{view} is a view made under {off}, and {operation(evidence)} writes to it with grad mode on",
        made=None if evidence.made is None else f"this view was made here, under {off}",
        written=f"written in place here, outside of {off} ({operation(evidence)})",
        why=(
            "a view made there is unknown to autograd, and yet the write changes the tensor that it is a "
            "view of: whether gradients are to flow through it is ambiguous",
        ),
        fixes=(
            Help.VIEW_OUTSIDE.fix(off=off),
            Help.WRITE_INSIDE.fix(),
            out_of_place(evidence, Help.COPY_OF_VIEW),
        ),
    )
