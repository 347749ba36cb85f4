"""UC202 leaf-view-written: an in-place operation on a view of a leaf that requires grad.

The view shares the leaf's memory, so the write changes the leaf itself, as in UC201. No gradient is ever
wrong, because torch refuses at the write.
"""

from __future__ import annotations

import re

from ...model import Finding, Help
from .._evidence import RefusalEvidence
from ._refused import MADE_BY_HOOK, WRITTEN, finding, out_of_place, subject, without_grad
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
    "{view} is a view of {whose}, and {operation} writes to it",
    {**WRITTEN, "saved": "{made}"},
    (
        MADE_BY_HOOK,
        "a view shares the leaf's memory: this would change the leaf itself, where gradients end up",
        "{refused} is expanded: torch refuses this under no_grad as well",
        "{shared} shares memory with elements of an expanded tensor: under no_grad they would change, too",
    ),
)


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a view of a leaf."""
    leaf, view = quoted(evidence.leaf, "a leaf"), subject(evidence)
    known = evidence.leaf and view != leaf
    made = f"{view} became a view of {leaf} here"
    if evidence.leaf_shown:
        statement = evidence.made.site.statement if evidence.made and evidence.made.site else leaf
        words = [set(re.findall(r"\w+", text)) for text in (leaf, statement)]
        made = f"{leaf if set.intersection(*words) else 'it'} was made here, a leaf that requires grad"
    elif evidence.how != "[]":
        made += f", by {evidence.how}"
    copied = evidence.leaf_here
    if evidence.expanded:
        is_named = evidence.expanded == "refused" and evidence.write and evidence.write.expression
        copied = view.strip("`") if is_named else None
    fixes = (Help.COPY_OF_LEAF.fix(copied and f"x = {copied}.clone()"), out_of_place(evidence))
    # no_grad would drop the gradient of what is written: tests/programs/UC202/image_features_into_a_leaf.py.
    keeps = evidence.expanded or evidence.carries_gradient or evidence.module_hook is not None
    return finding(
        evidence,
        WORDING._replace(variant="expanded" if evidence.expanded else None),
        fixes if keeps else (without_grad(evidence), *fixes),
        whose=f"the leaf {leaf}, which requires grad" if known else "a leaf that requires grad",
        made=made,
        refused=view if evidence.expanded == "refused" else None,
        shared=view if evidence.expanded == "shared" else None,
    )
