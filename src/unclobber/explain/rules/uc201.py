"""UC201 leaf-written: an in-place operation on a leaf that requires grad.

Gradients are collected in leaves, whose values come from outside of every graph. An in-place operation would
make the leaf its result, and no leaf would be left to collect a gradient, so torch refuses at the write.
"""

from __future__ import annotations

from ...model import Finding, Fix, Help
from .._evidence import RefusalEvidence
from ._refused import by_module, finding, operation, out_of_place, subject, without_grad

_UPDATES = frozenset(("sub_", "add_", "addcmul_", "addcdiv_"))


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a leaf."""
    name = f"`{evidence.leaf}`" if evidence.leaf else subject(evidence)
    made = None if evidence.made is None else f"{name} became a leaf that requires grad here"
    why = [
        "gradients end up in leaves: after this write it would be the operation's result and no leaf "
        "any more, and its `.grad` would stay empty"
    ]
    hook = evidence.module_hook
    if hook is not None:
        named = f" `{hook.name}`" if hook.name else ""
        why.insert(0, f"a forward hook of `{hook.module}`{named} makes a leaf of what the module returns")
    # The usual advice, `w = w - lr * w.grad`, makes a tensor whose `.grad` stays None
    # (test_an_update_of_a_leaf_is_not_to_be_made_out_of_place in tests/unit/explain/test_refusal_rules.py).
    elif operation(evidence) in _UPDATES and " = " in (evidence.out_of_place or ""):
        why.append(
            f"after `{evidence.out_of_place}` it would be a new tensor, no leaf, with an empty `.grad`"
        )
    return finding(
        evidence,
        f"{name} is a leaf that requires grad, and {operation(evidence)} writes to it in place",
        made=made,
        why=tuple(why),
        fixes=tuple(_fixes(evidence)),
    )


def _fixes(evidence: RefusalEvidence) -> list[Fix]:
    """Return the fixes; for a leaf that the program hands on only those through which gradients flow."""
    # In `embeddings += position`, no_grad would leave `position` without a gradient
    # (embeddings_made_a_leaf_by_a_hook.py and a_leaf_given_to_a_library.py in tests/programs/UC201).
    write, hook = evidence.write, evidence.module_hook
    if write is not None and write.library and not evidence.parameter and not by_module(evidence):
        return [(Help.GIVE_A_COPY if hook is None else Help.COPY_IN_HOOK).fix()]
    if hook is not None:
        name = None if write is None else write.expression
        copy = Help.COPY_BEFORE.fix(f"{name} = {name}.clone()" if name and name.isidentifier() else None)
        return [copy, out_of_place(evidence), Help.COPY_IN_HOOK.fix()]
    return [without_grad(evidence), out_of_place(evidence, Help.RESULT_ALONE), Help.PLAIN_FIRST.fix()]
