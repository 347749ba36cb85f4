"""UC103 saved-on-ctx: a custom Function keeps a tensor where autograd can't look after it.

A tensor that ``forward`` leaves on ``ctx`` without ``save_for_backward`` has no version check: if
it is overwritten before ``backward`` reads it, the gradient is wrong and nothing is said. The other
half of the contract with autograd is ``mark_dirty``: what was marked must be returned itself.
"""

from __future__ import annotations

from ...model import Evidence, Finding, Fix, Need, Write
from .._words import tensor_name, touching


def judge(evidence: Evidence) -> Finding | None:
    if evidence.kind != "ctx":
        return None
    save = evidence.save
    how = "was given other memory" if evidence.swapped else "was overwritten"
    function = save.operation or "a custom Function"
    held = f"`{save.role}`" if save.role else "an attribute of ctx"
    name = "it" if save.expression == save.role and not save.name else tensor_name(save)
    message = (
        f"{held} {how} after {function}.forward left it there for backward"
        if name == "it"
        else f"{name} {how} after {function}.forward left it on ctx ({held}) for backward"
    )
    fixes = () if evidence.repaired else (
        Fix("keep the tensor with ctx.save_for_backward: autograd then refuses when it was overwritten"),
        Fix("write after the backward, or keep a clone on ctx"),
    )  # fmt: skip
    return Finding(
        code="UC103",
        message=message,
        saved=save,
        writes=touching(evidence.writes),
        needed=evidence.need,
        fixes=fixes,
        notes=() if evidence.repaired else ("torch never checks what a Function keeps on ctx by itself",),
        kept_bytes=evidence.kept_bytes,
        repaired=evidence.repaired,
        labels=(("saved", f"{function}.forward left {held} here"),),
    )


def judge_dirty(writes: tuple[Write, ...], need: Need, *, function: str, torch_message: str) -> Finding:
    """A Function marked a tensor dirty and did not return it.

    Args:
        writes: The writes to that tensor during ``forward``; empty where it can't be told which it is.
        need: The line that called the Function.
        function: The Function's name.
        torch_message: What torch says.
    """
    written = next((write.expression for write in writes if write.expression), None)
    what = f"`{written}`" if written else "a tensor"
    return Finding(
        code="UC103",
        message=f"{function}.forward marks {what} dirty but returns another tensor",
        writes=writes,
        needed=need,
        fixes=(Fix("return the tensor that was marked dirty itself, not a copy or a view of it"),),
        torch_message=torch_message,
        labels=(("write", "changed in place here"), ("needed", f"{function} is applied here")),
    )
