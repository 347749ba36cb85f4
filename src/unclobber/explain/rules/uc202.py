"""UC202 leaf-view-written: an in-place operation on a view of a leaf that requires grad.

The view shares the leaf's memory, so the write changes the leaf itself, as in UC201. No gradient is ever
wrong, because torch refuses at the write.
"""

from __future__ import annotations

import re

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import finding, operation, out_of_place, subject, without_grad


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a view of a leaf."""
    leaf = f"`{evidence.leaf}`" if evidence.leaf else "a leaf"
    view = subject(evidence)
    whose = "a leaf that requires grad"
    if evidence.leaf and view != leaf:
        whose = f"the leaf {leaf}, which requires grad"
    message = f"{view} is a view of {whose}, and {operation(evidence)} writes to it"
    made = None
    if evidence.made is not None:
        made = (
            f"{leaf} was made here, a leaf that requires grad"
            if evidence.leaf_shown
            else f"{view} became a view of {leaf} here"
            + (f", by {evidence.how}" if evidence.how != "[]" else "")
        )
    # `net.0.weight` is a name, but no expression
    speakable = evidence.leaf is not None and not re.search(r"\.\d", evidence.leaf)
    clone = f"x = {evidence.leaf}.clone()" if speakable else None
    if evidence.expanded:
        clone = f"x = {view.strip('`')}.clone()" if evidence.write and evidence.write.expression else None
    return finding(
        evidence,
        message,
        made=made,
        why=(
            "a view shares the leaf's memory: this would change the leaf itself, where gradients end up",
            *(
                (f"{view} is expanded: torch refuses this under no_grad as well",)
                if evidence.expanded
                else ()
            ),
        ),
        fixes=(
            *(() if evidence.expanded else (without_grad(evidence),)),
            Help.COPY_OF_LEAF.fix(clone),
            out_of_place(evidence),
        ),
    )
