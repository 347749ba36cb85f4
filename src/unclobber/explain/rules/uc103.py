"""UC103 saved-on-ctx: a custom Function keeps a tensor outside of autograd's checks.

A tensor that ``forward`` leaves on ``ctx`` without ``save_for_backward`` has no version check: if it is
overwritten before ``backward`` reads it, the gradient is silently wrong. The other half of the contract with
autograd is ``mark_dirty``: an input that is overwritten must be marked, and a marked tensor must be returned
itself.
"""

from __future__ import annotations

from ...model import Finding, Help, Need, Save, Write
from .._evidence import Evidence
from ._wording import Wording
from ._words import quoted, tensor_name

WORDING = Wording(
    "{what} {how} after {function}.forward left it {where} for backward",
    {"saved": "{function}.forward left {held} here"},
    notes=(
        "torch never checks what a Function keeps on ctx by itself; what it gives to ctx.save_for_backward "
        "it checks, and refuses once it is overwritten",
    ),
)
DIRTY = Wording(
    "{function}.forward marks {what} dirty but returns another tensor",
    {"write": "changed in place here", "needed": "{function} is applied here"},
    helps=(Help.RETURN_MARKED,),
    variant="dirty",
)
UNMARKED = Wording(
    "{held} was overwritten by {function}.forward without ctx.mark_dirty, and then read again",
    {"saved": "{function} is applied here", "write": "overwritten here, without ctx.mark_dirty"},
    notes=("the gradient of what reads {held} afterwards passes {function} by, and torch says nothing",),
    helps=(Help.COPY_IN_FORWARD,),
    variant="unmarked",
)
_RETURNED = UNMARKED._replace(helps=(Help.MARK_DIRTY, Help.READ_RETURNED))
BY_OPERATOR = Wording(
    "{held} was overwritten by {function}, which autograd does not record, and then read again",
    {"saved": "{function} is applied here", "write": "overwritten here"},
    notes=(
        f"{UNMARKED.notes[0]}: it is right only if the written values differ from the old ones by a constant",
    ),
    helps=(Help.OPERATOR_RETURNS,),
    variant="unmarked",
)


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding for an overwritten tensor on ``ctx``; None for other evidence."""
    if evidence.kind != "ctx":
        return None
    save = evidence.save
    held = quoted(save.role, "an attribute of ctx")
    unnamed = save.expression == save.role and not save.name
    names = {
        "what": held if unnamed else tensor_name(save),
        "function": save.operation or "a custom Function",
        "where": "there" if unnamed else f"on ctx ({held})",
        "held": held,
    }
    fixes = [Help.COPY_ON_CTX.fix()]
    if save.role == "ctx":  # compiled code has one list of all attributes (`compat.tracing.UNCHECKED`)
        names |= {"where": "on ctx", "held": "it"}
    elif evidence.value_known:
        fixes.append(Help.GUARD.fix())
    return WORDING.of_saved("UC103", evidence, names, fixes=tuple(fixes))


def judge_dirty(writes: tuple[Write, ...], need: Need, *, function: str, torch_message: str) -> Finding:
    """Return the finding for a Function that marked a tensor dirty and did not return it."""
    written = next((write.expression for write in writes if write.expression), None)
    names = {"function": function, "what": quoted(written, "a tensor")}
    return DIRTY.finding("UC103", names, writes=writes, needed=need, torch_message=torch_message)


def judge_unmarked(
    save: Save, writes: tuple[Write, ...], need: Need, *, returned: bool, is_operator: bool = False
) -> Finding:
    """Return the finding for an input that a Function overwrote without ``mark_dirty``, and that was read
    later.

    The later reader's gradient bypasses the Function.

    Args:
        save: The input: where the Function was applied to it, and its name there; no role.
        returned: Whether ``forward`` returned the input, as ``mark_dirty`` wants.
        is_operator: Whether it is a ``torch.library.custom_op``, for which torch lets the program write
            neither a ``forward`` with a ``ctx`` nor, because it writes to its input, a backward.
    """
    within = {write.expression for write in writes if write.expression and write.expression.isidentifier()}
    inner = within.pop() if len(within) == 1 else "…"
    names = {"function": save.operation or "it", "held": quoted(save.expression, "an input")}
    texts = BY_OPERATOR if is_operator else _RETURNED if returned else UNMARKED
    lines = {Help.MARK_DIRTY: f"ctx.mark_dirty({inner})"}
    return texts.finding("UC103", names, lines=lines, saved=save, writes=writes, needed=need)
