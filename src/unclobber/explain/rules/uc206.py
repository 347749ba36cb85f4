"""UC206 inference-tensor: a tensor made in inference mode that a later operation hands to autograd.

Such tensors never have a version counter and stay unknown to autograd. They can't be saved for backward, and
outside of inference mode they can't be written.
"""

from __future__ import annotations

from dataclasses import replace

from ...model import Finding, Help, Need
from .._evidence import RefusalEvidence
from ._refused import finding, operation, subject


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write, save or ``requires_grad`` of an inference tensor."""
    name = subject(evidence)
    if evidence.variant == "saved":
        did = f"{operation(evidence)} must save it for backward"
        written = f"to be saved for backward here, by {operation(evidence)}"
    elif evidence.variant == "trained":
        did = "is to require grad outside of it"
        written = "to require grad here"
    else:
        did = f"{operation(evidence)} writes to it outside of it"
        written = f"written here, outside of inference mode ({operation(evidence)})"
    made = None if evidence.made is None else f"{name} was made here, in inference mode"
    link = " and " if evidence.variant == "trained" else ", and "
    result = finding(
        evidence,
        f"{name} was made in inference mode{link}{did}",
        made=made,
        written=written,
        why=("tensors made in inference mode have no version counter, so autograd can't watch over them",),
        fixes=(
            Help.NO_INFERENCE.fix(),
            Help.NORMAL_COPY.fix(how=_clone(name)),
        ),
    )
    # An operation that saves the tensor, or needs its gradient, writes nothing.
    if evidence.variant == "saved":
        places = {"write": "saved", "saved": "made"}
        result = replace(result, saved=evidence.saver, made=evidence.made)
    elif evidence.variant == "trained":
        site = None if evidence.write is None else evidence.write.site
        places = {"write": "needed"}
        result = replace(result, needed=Need(site))
    else:
        return result
    labels = tuple((places.get(place, place), text) for place, text in result.labels)
    return replace(result, writes=(), labels=labels)


def _clone(name: str) -> str:
    bare = name.strip("`")
    simple = name.startswith("`") and bare.replace(".", "").isidentifier()
    return f": `{bare} = {bare}.clone()`" if simple else ", by its `.clone()`"
