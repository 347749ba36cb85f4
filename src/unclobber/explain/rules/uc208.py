"""UC208 view-detached: ``detach_()`` on a view.

A view has no history of its own to drop: it follows from the history of its base, also after later writes to
the base. torch refuses for every view, whether gradients flow or not
(torch/csrc/autograd/VariableTypeManual.cpp, ``detach_``).
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import finding, out_of_place
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
    "{view} is a view, and {operation} would detach it in place",
    {"write": "detached in place here ({operation})", "saved": "{by} makes a view here"},
    (
        "the history of a view follows from that of the tensor whose memory it shows, so there is none "
        "of its own to drop",
    ),
)


def judge(evidence: RefusalEvidence) -> Finding:
    by = "indexing" if evidence.how == "[]" else quoted(evidence.how, "indexing")
    return finding(evidence, WORDING, (out_of_place(evidence, Help.DETACH), Help.DETACH_BASE.fix()), by=by)
