"""Shared parts of the rules for refused writes."""

from __future__ import annotations

from dataclasses import replace

from ...model import CODES, Finding, Fix, Help
from ...syntax import torch_table
from .._evidence import RefusalEvidence


def subject(evidence: RefusalEvidence) -> str:
    """Return the tensor that was about to be written, in the user's words."""
    write = evidence.write
    if write is not None and write.expression:
        return f"`{' '.join(write.expression.split())}`"
    if evidence.made is not None and evidence.made.expression:
        return f"`{evidence.made.expression}`"
    return "the tensor"


def operation(evidence: RefusalEvidence) -> str:
    """Return the refused operation's name."""
    return evidence.write.operation if evidence.write is not None else "the operation"


def finding(
    evidence: RefusalEvidence,
    message: str,
    *,
    made: str | None,
    written: str | None = None,
    why: tuple[str, ...],
    fixes: tuple[Fix, ...],
) -> Finding:
    """Return a finding at the refused line.

    Args:
        evidence: The facts.
        message: One sentence: the line, and the tensor it writes.
        made: Label of the line that made the tensor; None if there is none.
        written: Label of the refused line; None for the usual one.
        why: The reasons why autograd can't allow it.
        fixes: Fixes, most useful first.
    """
    labels = [("write", written or f"written in place here ({operation(evidence)})")]
    if made is not None:
        labels.append(("saved", made))
    # `or` joins a fix to the one before it, and the first has none
    # (test_the_first_help_is_no_alternative in tests/unit/explain/test_refusal_rules.py).
    first, *others = fixes
    return Finding(
        code=evidence.code,
        variant=evidence.variant,
        message=message,
        saved=evidence.made,
        writes=() if evidence.write is None else (evidence.write,),
        fixes=(replace(first, title=first.title.removeprefix("or ")), *others),
        notes=why,
        torch_message=evidence.torch_message,
        labels=tuple(labels),
    )


def judge_use(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a view that is used after its memory was written: torch refuses late, at the
    line that reads it."""
    view = subject(evidence)
    kind = CODES[evidence.code].used or "a view"
    named = view != "the tensor"
    if evidence.code == "UC203" and evidence.made is None:
        kind += " (unbind, split, chunk, a loop over a tensor)"
    unknown = (
        "the write went to this view, to its base or to another view of it, on an earlier line that is not "
        "known"
    )
    return Finding(
        code=evidence.code,
        variant=evidence.variant,
        message=f"{view} is {kind}, used after its memory was written in place"
        if named
        else f"{kind} is used after its memory was written in place",
        saved=evidence.made,
        writes=() if evidence.write is None else (evidence.write,),
        needed=evidence.used,
        fixes=(
            Help.BEFORE_VIEW.fix(),
            Help.COPY_FOR_VIEW.fix(),
        ),
        notes=(
            *(() if evidence.write is not None else (unknown,)),
            "autograd can't tell what became of such a view once its memory was written",
        ),
        torch_message=evidence.torch_message,
        labels=(
            ("saved", f"{_maker(evidence)} makes the view here"),
            ("write", f"its memory is written in place here ({operation(evidence)})"),
            ("needed", f"{view if named else 'the view'} is used here, after the write"),
        ),
    )


def _maker(evidence: RefusalEvidence) -> str:
    return f"`{evidence.how}`" if evidence.how and evidence.how != "[]" else "this line"


def without_grad(evidence: RefusalEvidence) -> Fix:
    """Return the fix for a write that is bookkeeping, not part of the differentiated computation."""
    return Help.NO_GRAD.fix(evidence.in_no_grad) if evidence.in_no_grad else Help.NO_GRAD_BLOCK.fix()


def by_module(evidence: RefusalEvidence) -> bool:
    """Return whether a torch module wrote that has an ``inplace`` argument: ``nn.ReLU(inplace=True)``."""
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
        return (Help.NEW_TENSOR if " = " in made else Help.NEW_TENSOR_USED).fix(made)
    # A clone can't be put into the `forward` of nn.ReLU, so the fix is at its construction
    # (test_a_library_that_writes_is_told_at_its_construction in tests/unit/explain/test_refusal_rules.py).
    if by_module(evidence):
        return Help.MODULE_WITHOUT_INPLACE.fix()
    write = evidence.write
    if write is not None and ((write.expression or "").endswith("]") or write.operation == "index_put_"):
        return Help.NEW_BY_INDEX.fix()
    return otherwise.fix()
