"""UC201 leaf-written: an in-place operation on a leaf that requires grad.

Gradients are collected in leaves, whose values come from outside of every graph. An in-place operation would
make the leaf its result, and no leaf would be left to collect a gradient, so torch refuses at the write.
"""

from __future__ import annotations

from ...model import Finding, Fix
from .._evidence import RefusalEvidence
from ._refused import finding, operation, out_of_place, subject, without_grad

_UPDATES = frozenset(("sub_", "add_", "addcmul_", "addcdiv_"))


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a leaf."""
    name = f"`{evidence.leaf}`" if evidence.leaf else subject(evidence)
    made = None if evidence.made is None else f"{name} became a leaf that requires grad here"
    fixes = [without_grad(evidence)]
    # The usual advice, `w = w - lr * w.grad`, makes a tensor whose `.grad` stays None
    # (test_an_update_of_a_leaf_is_not_to_be_made_out_of_place in tests/unit/explain/test_refusal_rules.py).
    if operation(evidence) in _UPDATES and evidence.out_of_place and not evidence.parameter:
        fixes.append(
            Fix(f"not `{evidence.out_of_place}`: that is a new tensor, no leaf, and its `.grad` stays None")
        )
    else:
        fixes.append(out_of_place(evidence, "where gradients are to flow, use the out-of-place operation"))
    fixes.append(
        Fix("or write the values into a plain tensor first, and call `.requires_grad_()` on it last")
    )
    return finding(
        evidence,
        f"{name} is a leaf that requires grad, and {operation(evidence)} writes to it in place",
        made=made,
        why=(
            "gradients end up in leaves: after this write it would be the operation's result and no leaf "
            "any more, and its `.grad` would stay empty",
        ),
        fixes=tuple(fixes),
    )
