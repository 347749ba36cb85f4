"""Writes of DistributedDataParallel's, backward's, an optimizer's and a pre-hook's, explained by their names.

They are known from the frames around the user's line and from the owner of the memory, never from shapes.
"""

from __future__ import annotations

import re

from ...model import Fix, Help, Write
from .._evidence import Evidence
from ._wording import filled

_NOTES = (
    "a derivative of a transform around this one flows through the overwritten tensor, so that guard can't "
    "put its old values there{differentiated}",
    "DistributedDataParallel broadcasts the module's buffers from rank 0 before each forward{broadcast}",
    "this memory is the gradient of `{in_bucket}`, a view of a bucket of DistributedDataParallel "
    "(gradient_as_bucket_view=True): every backward writes to it, also after zero_grad(set_to_none=True)",
    "this memory is the gradient of `{gradient}`: every backward adds to it in place",
    "this memory is some tensor's `.grad`: every backward adds to it in place{nameless}",
    "the write, through `.detach()` or under torch.no_grad(), does not enter the graph: where the tensor is "
    "read afterwards, gradients flow on through it as if nothing had been written{past}",
)
_SET_BACK = (
    ", and sets their version counters back, so torch can't see that a buffer which an earlier forward saved "
    "has changed"
)


def notes(evidence: Evidence) -> tuple[str, ...]:
    """Return a note on the mechanism if DistributedDataParallel or the accumulation of gradients wrote, if no
    value can stand in for the overwritten one, or if gradients flow past the write."""
    writers, gradient, last = _writers(evidence), evidence.gradient_memory, evidence.culprit
    unseen = any(write.past_counter == "broadcast" for write in evidence.writes)
    by_program = last is not None and not (last.library or last.optimizer or last.by)
    flows_past = evidence.moved and evidence.changed and evidence.keeps_history and by_program
    names = {
        "differentiated": "" if evidence.differentiated else None,
        "broadcast": (_SET_BACK if unseen else "") if "buffer broadcast" in writers else None,
        "in_bucket": gradient.parameter if gradient is not None and gradient.in_bucket else None,
        "gradient": gradient.parameter if gradient is not None and not gradient.in_bucket else None,
        "nameless": "" if gradient is None and "backward" in writers else None,
        "past": "" if flows_past else None,
    }
    return filled(_NOTES, names)


def ways_out(evidence: Evidence) -> tuple[Fix, ...]:
    """Return the fixes that end the mechanism; empty if none of them wrote."""
    if "buffer broadcast" in _writers(evidence):
        return (Help.BUFFERS_LATER.fix(), Help.NO_BUFFER_SYNC.fix())
    if evidence.gradient_memory is not None:
        return (Help.COPY_GRADIENT.fix(name=f"{evidence.gradient_memory.parameter}.grad"),)
    if "backward" in _writers(evidence):
        gradient = evidence.save.expression or evidence.save.name
        return (Help.COPY_GRADIENT.fix(name=gradient) if gradient else Help.COPY.fix(),)
    last = evidence.culprit
    if last is not None and evidence.save.name is None and (fix := _in_pre_hook(last)):
        return (fix,)
    if last is not None and last.optimizer:
        closure, needed = re.search(r"\((\w+)\)$", last.optimizer), evidence.need and evidence.need.site
        if closure and needed and needed.function.rpartition(".")[2] == closure[1]:
            return (Help.IN_CLOSURE.fix(step=last.optimizer),)
        frames = () if last.site is None else last.site.stack
        inside = needed and any((frame.path, frame.line) == (needed.path, needed.line) for frame in frames)
        if inside and any(frame.function == "_engine_run_backward" for frame in frames):
            return (Help.STEP_IN_HOOK.fix(step=last.optimizer),)
        if evidence.carried:
            return (Help.CARRIED.fix(step=last.optimizer),)
        ways = (Help.STEP_LATER.fix(step=last.optimizer), Help.CUT_WEIGHTS.fix())
        return ways if evidence.feeds_others else ways[:1]
    return ()


def _in_pre_hook(write: Write) -> Fix | None:
    """Return the fix if a module's forward pre-hook writes to its argument: the module gets another tensor
    only if the hook returns one."""
    frames = () if write.site is None else write.site.stack[:2]
    called = re.match(r"args(_kwargs)?_result = hook\(", frames[-1].source if frames else "")
    if called is None or not re.fullmatch(r"\w+(\[.*\])?", write.expression or ""):
        return None
    returned = "return (new,), kwargs" if called[1] else "return (new,)"
    return Help.RETURN_ARGUMENT.fix(hook=frames[0].function.rpartition(".")[2], returned=returned)


def _writers(evidence: Evidence) -> set[str | None]:
    return {write.by for write in evidence.overwriting}
