"""Shared parts of the rules for refused writes."""

from __future__ import annotations

from typing import Any

from ...model import CODES, Finding, Fix, Help
from ...syntax import torch_table
from .._evidence import RefusalEvidence
from ._wording import Wording
from ._words import quoted

WRITTEN = {"write": "written in place here ({operation})"}  # the usual label of the refused line
MADE_BY_HOOK = "a forward hook of {hook} makes a leaf of what the module returns"
_USED = Wording(
    "{what}used after its memory was written in place",
    {
        "saved": "{maker} makes the view here",
        "write": "its memory is written in place here ({operation})",
        "needed": "{user} is used here, after the write",
    },
    (
        "{unknown}",
        "in each forward FullyShardedDataParallel makes the parameters of `{sharded}` views of a flat tensor",
        "autograd can't tell what became of such a view once its memory was written",
    ),
    (Help.BEFORE_VIEW, Help.COPY_FOR_VIEW),
)
_UNKNOWN_WRITE = (
    "the write went to this view, to its base or to another view of it, on an earlier line that is not known"
)
_NAMELESS = "the tensor"


def subject(evidence: RefusalEvidence) -> str:
    write = evidence.write
    if write is not None and write.expression:
        return f"`{' '.join(write.expression.split())}`"
    return quoted(evidence.made.expression if evidence.made is not None else None, _NAMELESS)


def operation(evidence: RefusalEvidence) -> str:
    return evidence.write.operation if evidence.write is not None else "the operation"


def finding(
    evidence: RefusalEvidence, texts: Wording, fixes: tuple[Fix, ...] | None, /, **names: str | None
) -> Finding:
    """Return a finding at the refused line, or at the line that uses what an earlier one has written.

    Args:
        texts: The sentences; ``view``, ``operation`` and ``hook`` are known to each.
        fixes: Fixes, most useful first; None for the helps of the sentences.
        names: The other fields of the sentences.
    """
    by = evidence.module_hook
    hook = None if by is None else f"`{by.module}`{f' `{by.name}`' if by.name else ''}"
    used: dict[str, Any] = {} if evidence.used is None else {"needed": evidence.used}
    return texts.finding(
        evidence.code,
        {"view": subject(evidence), "operation": operation(evidence), "hook": hook, **names},
        fixes=fixes,
        variant=evidence.variant or texts.variant,
        saved=evidence.made,
        writes=() if evidence.write is None else (evidence.write,),
        torch_message=evidence.torch_message,
        **used,
    )


def judge_use(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a view that is used after its memory was written, which torch refuses late."""
    view = subject(evidence)
    kind = CODES[evidence.code].used or "a view"
    if evidence.code == "UC203" and evidence.made is None:
        kind += " (unbind, split, chunk, a loop over a tensor)"
    named = view != _NAMELESS
    names = {
        "what": f"{view} is {kind}, " if named else f"{kind} is ",
        "maker": "this line" if evidence.how == "[]" else quoted(evidence.how, "this line"),
        "user": view if named else "the view",
        "unknown": _UNKNOWN_WRITE if evidence.write is None else None,
        "sharded": evidence.sharded,
    }
    advice = Help.OWN_WRAP if evidence.written_outside else Help.IGNORED
    fixes = None if evidence.sharded is None else (advice.fix(module=evidence.sharded),)
    return finding(evidence, _USED, fixes, **names)


def without_grad(evidence: RefusalEvidence) -> Fix:
    """Return the fix for a write that is bookkeeping, not part of the differentiated computation."""
    before = f", before `{evidence.remainder}`" if evidence.remainder else ""
    known = evidence.in_no_grad is not None
    return Help.NO_GRAD.fix(evidence.in_no_grad, before=before) if known else Help.NO_GRAD_BLOCK.fix()


def by_module(evidence: RefusalEvidence) -> bool:  # `nn.ReLU(inplace=True)`
    site = None if evidence.write is None else evidence.write.site
    methods = [
        frame.function.rpartition(".") for frame in (() if site is None else site.below) if frame.library
    ]
    return any(owner in torch_table().inplace and name == "forward" for owner, _, name in methods)


def out_of_place(evidence: RefusalEvidence, otherwise: Help = Help.OUT_OF_PLACE) -> Fix:
    """Return the fix for a write through which gradients flow: a new tensor."""
    # `self.w = self.w.mul(2)` raises for an nn.Parameter, and no other leaf's name may be given to a tensor
    # that is none, whose `.grad` stays empty (test_a_parameters_name_is_not_given_to_a_plain_tensor in
    # tests/unit/explain/test_refusal_rules.py).
    made = evidence.out_of_place
    if made and (evidence.parameter or (evidence.code == "UC201" and evidence.module_hook is None)):
        return Help.RESULT.fix(made.partition(" = ")[2] or made)
    if made:
        plain = Help.NEW_TENSOR if " = " in made else Help.NEW_TENSOR_USED
        reaches_another = evidence.code in _OF_VIEWS and evidence.module_hook is None
        return (Help.NEW_FOR_VIEW if reaches_another else plain).fix(made)
    # A clone can't be put into the `forward` of nn.ReLU, so the fix is at its construction
    # (test_a_library_that_writes_is_told_at_its_construction in tests/unit/explain/test_refusal_rules.py).
    if by_module(evidence):
        return Help.MODULE_WITHOUT_INPLACE.fix()
    write = evidence.write
    if write is not None and write.site is not None and "inplace=True" in write.site.source:
        return Help.CALL_WITHOUT_INPLACE.fix()
    if write is not None and ((write.expression or "").endswith("]") or write.operation == "index_put_"):
        return Help.NEW_BY_INDEX.fix()
    if write is not None and write.operation in torch_table().overwrites_all:
        return Help.NEW_MEMORY.fix()
    return otherwise.fix()


_OF_VIEWS = ("UC202", "UC203", "UC204")
"""Codes of writes that reach the memory of another tensor, which a new tensor leaves as it is."""
