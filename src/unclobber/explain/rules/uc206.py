"""UC206 inference-tensor: a tensor made in inference mode that a later operation hands to autograd.

Such tensors never have a version counter and stay unknown to autograd. They can't be saved for backward, and
outside of inference mode they can't be written.
"""

from __future__ import annotations

from dataclasses import replace

from ...model import Finding, Help, Need, Variant
from .._evidence import RefusalEvidence
from ._refused import finding, subject
from ._wording import Wording

_MADE = "{view} was made here, in inference mode"
_WHY = ("tensors made in inference mode have no version counter, so autograd can't watch over them",)
WORDING: dict[Variant | None, Wording] = {
    None: Wording(
        "{view} was made in inference mode, and {operation} writes to it outside of it",
        {"write": "written here, outside of inference mode ({operation})", "saved": _MADE},
        _WHY,
    ),
    "saved": Wording(
        "{view} was made in inference mode, and {operation} must save it for backward",
        {"saved": "to be saved for backward here, by {operation}", "made": _MADE},
        _WHY,
    ),
    "trained": Wording(
        "{view} was made in inference mode and is to require grad outside of it",
        {"needed": "to require grad here", "saved": _MADE},
        _WHY,
    ),
}


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write, save or ``requires_grad`` of an inference tensor."""
    fixes = (Help.NO_INFERENCE.fix(), Help.NORMAL_COPY.fix(how=_clone(subject(evidence))))
    is_save = evidence.variant == "saved"  # the line saves, wherever the tensor was made
    shown = replace(evidence, made=evidence.saver) if is_save else evidence
    result = finding(shown, WORDING[evidence.variant], fixes)
    # An operation that saves the tensor, or needs its gradient, writes nothing.
    if is_save:
        labels = tuple(text for text in result.labels if evidence.made is not None or text[0] != "made")
        return replace(result, made=evidence.made, writes=(), labels=labels)
    if evidence.variant == "trained":
        site = None if evidence.write is None else evidence.write.site
        return replace(result, needed=Need(site), writes=())
    return result


def _clone(name: str) -> str:
    bare = name.strip("`")
    simple = name.startswith("`") and bare.replace(".", "").isidentifier()
    return f": `{bare} = {bare}.clone()`" if simple else ", by its `.clone()`"
