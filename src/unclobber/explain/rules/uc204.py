"""UC204 no-grad-view-written: an in-place operation with grad mode on, on a view made with it off.

It is ambiguous whether the write is to be recorded for the view's base: the view says no, the write says yes.
torch refuses to guess.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import finding, out_of_place
from ._wording import Wording

WORDING = Wording(
    "{view} is a view made under {off}, and {operation} writes to it with grad mode on",
    {
        "write": "written in place here, outside of {off} ({operation})",
        "saved": "this view was made here, under {off}",
    },
    (
        "a view made there is unknown to autograd, and yet the write changes the tensor that it is a "
        "view of: whether gradients are to flow through it is ambiguous",
    ),
)


def judge(evidence: RefusalEvidence) -> Finding:
    off = "inference mode" if evidence.variant == "inference_mode" else "no_grad"
    copy = out_of_place(evidence, Help.COPY_OF_VIEW)
    return finding(
        evidence, WORDING, (Help.VIEW_OUTSIDE.fix(off=off), Help.WRITE_INSIDE.fix(), copy), off=off
    )
