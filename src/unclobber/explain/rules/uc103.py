"""UC103 saved-on-ctx: a custom Function keeps a tensor outside of autograd's checks.

A tensor that ``forward`` leaves on ``ctx`` without ``save_for_backward`` has no version check: if it is
overwritten before ``backward`` reads it, the gradient is silently wrong. The other half of the contract with
autograd is ``mark_dirty``: an input that is overwritten must be marked, and a marked tensor must be returned
itself.
"""

from __future__ import annotations

from ...model import Finding, Help, Need, Save, Write, touching
from .._evidence import Evidence
from ._words import tensor_name

_UNCHECKED = (
    "torch never checks what a Function keeps on ctx by itself; what it gives to ctx.save_for_backward it "
    "checks, and refuses once it is overwritten"
)


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding for an overwritten tensor on ``ctx``; None for other evidence."""
    if evidence.kind != "ctx":
        return None
    save = evidence.save
    how = "was given other memory" if evidence.storage_swapped else "was overwritten"
    function = save.operation or "a custom Function"
    held = f"`{save.role}`" if save.role else "an attribute of ctx"
    name = "it" if save.expression == save.role and not save.name else tensor_name(save)
    message = (
        f"{held} {how} after {function}.forward left it there for backward"
        if name == "it"
        else f"{name} {how} after {function}.forward left it on ctx ({held}) for backward"
    )
    return Finding(
        code="UC103",
        message=message,
        saved=save,
        writes=touching(evidence.writes),
        needed=evidence.need,
        fixes=() if evidence.repaired else (Help.COPY_ON_CTX.fix(),),
        notes=tuple(filter(None, (evidence.line_range, None if evidence.repaired else _UNCHECKED))),
        kept_bytes=evidence.kept_bytes,
        repaired=evidence.repaired,
        labels=(("saved", f"{function}.forward left {held} here"),),
    )


def judge_dirty(writes: tuple[Write, ...], need: Need, *, function: str, torch_message: str) -> Finding:
    """Return the finding for a Function that marked a tensor dirty and did not return it.

    Args:
        writes: The writes to that tensor during ``forward``; empty if the tensor isn't known.
        need: The line that called the Function.
        function: The Function's name.
        torch_message: torch's message.
    """
    written = next((write.expression for write in writes if write.expression), None)
    what = f"`{written}`" if written else "a tensor"
    return Finding(
        code="UC103",
        variant="dirty",
        message=f"{function}.forward marks {what} dirty but returns another tensor",
        writes=writes,
        needed=need,
        fixes=(Help.RETURN_MARKED.fix(),),
        torch_message=torch_message,
        labels=(("write", "changed in place here"), ("needed", f"{function} is applied here")),
    )


def judge_unmarked(
    save: Save, writes: tuple[Write, ...], need: Need, *, returned: bool, is_operator: bool = False
) -> Finding:
    """Return the finding for an input that a Function overwrote without ``mark_dirty``, and that was read
    later.

    The later reader's gradient bypasses the Function.

    Args:
        save: The input: where the Function was applied to it, and its name there; no role.
        writes: The writes to it during ``forward``.
        need: The backward call.
        returned: Whether ``forward`` returned the input, as ``mark_dirty`` wants.
        is_operator: Whether it is a ``torch.library.custom_op``, for which torch lets the program write
            neither a ``forward`` with a ``ctx`` nor, because it writes to its input, a backward.
    """
    function = save.operation
    held = f"`{save.expression}`" if save.expression else "an input"
    within = {write.expression for write in writes if write.expression and write.expression.isidentifier()}
    inner = within.pop() if len(within) == 1 else None
    mark = f"ctx.mark_dirty({inner})" if inner else "ctx.mark_dirty(…)"
    later = Help.READ_RETURNED.fix(function=function or "it", held=held)
    fixes = (Help.MARK_DIRTY.fix(mark), later) if returned else (Help.COPY_IN_FORWARD.fix(),)
    message = f"{held} was overwritten by {function}.forward without ctx.mark_dirty, and then read again"
    note = f"the gradient of what reads {held} afterwards passes {function} by, and torch says nothing"
    label = "overwritten here, without ctx.mark_dirty"
    if is_operator:
        message = f"{held} was overwritten by {function}, which autograd does not record, and then read again"
        note += ": it is right only if the written values differ from the old ones by a constant"
        label = "overwritten here"
        fixes = (Help.OPERATOR_RETURNS.fix(),)
    return Finding(
        code="UC103",
        variant="unmarked",
        message=message,
        saved=save,
        writes=writes,
        needed=need,
        fixes=fixes,
        notes=(note,),
        labels=(
            ("saved", f"{function} is applied here"),
            ("write", label),
        ),
    )
