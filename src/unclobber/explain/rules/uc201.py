"""UC201 leaf-written: an in-place operation on a leaf that requires grad.

Gradients are collected in leaves, whose values come from outside of every graph. An in-place operation would
make the leaf its result, and no leaf would be left to collect a gradient, so torch refuses at the write.
"""

from __future__ import annotations

from ...model import Finding, Fix, Help
from ...syntax import torch_table
from .._evidence import RefusalEvidence
from . import _refused
from ._refused import finding, operation, out_of_place, without_grad
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
    "{leaf} is a leaf that requires grad, and {operation} writes to it in place",
    {**_refused.WRITTEN, "saved": "{leaf} became a leaf that requires grad here"},
    (
        _refused.MADE_BY_HOOK,
        "gradients end up in leaves: after this write it would be the operation's result and no leaf "
        "any more, and its `.grad` would stay empty",
        "after `{update}` it is a new tensor, no leaf, and its `.grad` stays None",
    ),
)
_OUTDATED = Wording(
    "{view} is a view from before its memory got a history, and torch takes it for a leaf",
    _refused.WRITTEN,
    ("a later write gave the memory its history; torch renews a view's once it is read, not written",),
)
_UPDATES = frozenset(("sub_", "add_", "addcmul_", "addcdiv_"))


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a leaf."""
    if evidence.variant == "outdated":
        return finding(evidence, _OUTDATED, (Help.VIEW_AGAIN.fix(),))
    update = evidence.out_of_place
    # The usual advice, `w = w - lr * w.grad`, makes a tensor whose `.grad` stays None
    # (test_an_update_of_a_leaf_is_not_to_be_made_out_of_place in tests/unit/explain/test_refusal_rules.py).
    by_hand = evidence.module_hook is None and not evidence.carries_gradient
    misleads = by_hand and operation(evidence) in _UPDATES and " = " in (update or "")
    return finding(
        evidence,
        WORDING,
        tuple(_fixes(evidence)),
        leaf=quoted(evidence.leaf, _refused.subject(evidence)),
        update=update if misleads else None,
    )


def _fixes(evidence: RefusalEvidence) -> list[Fix]:
    """Return the fixes; for a leaf that the program hands on only those through which gradients flow."""
    # In `embeddings += position`, no_grad would leave `position` without a gradient
    # (embeddings_made_a_leaf_by_a_hook.py and a_leaf_given_to_a_library.py in tests/programs/UC201).
    write, hooked = evidence.write, evidence.module_hook is not None
    if write is not None and write.library and not evidence.parameter and not _refused.by_module(evidence):
        result = out_of_place(evidence)
        fixes = [] if result.title == Help.OUT_OF_PLACE.value else [result]
        made = None if evidence.made is None else evidence.made.site
        if hooked and made is not None and not made.library:
            fixes.append(Help.COPY_IN_HOOK.fix())
        return [*fixes, (Help.COPY_AFTER_HOOK if hooked else Help.GIVE_A_COPY).fix()]
    if hooked or evidence.carries_gradient:
        name = None if write is None else write.expression
        copy = Help.COPY_BEFORE.fix(f"{name} = {name}.clone()" if name and name.isidentifier() else None)
        last = [Help.COPY_IN_HOOK.fix()] if hooked else []
        # A layer may also set itself up by what it is given first, as quantisation does.
        last += [without_grad(evidence)] if evidence.parameter else []
        return [copy, out_of_place(evidence), *last]
    # No gradient reaches the leaf through values that don't depend on it: `w.uniform_()`.
    flows = operation(evidence) not in torch_table().overwrites_all
    through = [out_of_place(evidence, Help.RESULT_ALONE)] if flows else []
    return [without_grad(evidence), *through, Help.PLAIN_FIRST.fix()]
