"""UC205 function-view-written: an in-place operation on a view that a custom Function returned.

A Function that returns its input, or a view of it, ties its own ``backward`` to that memory. A
write to the view would replace that backward by the one of the view, and gradients would be wrong.
"""

from __future__ import annotations

from ...model import Finding, Fix, RefusalEvidence
from ._refused import finding, operation, out_of_place, subject


def judge(evidence: RefusalEvidence) -> Finding:
    function = f"`{evidence.how}`" if evidence.how else "a custom Function"
    view = subject(evidence)
    made = None
    if evidence.made is not None:
        made = f"{function} returns a view of its input here, or the input itself"
    return finding(
        evidence,
        f"{view} shares memory with the input of {function}, and {operation(evidence)} writes to it in place",
        made=made,
        written=f"written in place here ({operation(evidence)})",
        why=(
            "the write would replace the backward that the Function brings by that of a plain view, and "
            "gradients would be wrong",
        ),
        fixes=(
            Fix(f"write into a copy: clone what {function} returns before writing to it"),
            Fix(
                "or let its forward return a tensor of its own: `return x.clone()` instead of `x.view_as(x)`"
            ),
            out_of_place(evidence, "or use the out-of-place operation (without the underscore)"),
            Fix("if its forward is meant to work in place: `ctx.mark_dirty(x)` and return `x` itself"),
        ),
    )
