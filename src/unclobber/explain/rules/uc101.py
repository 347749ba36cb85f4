"""UC101 saved-overwritten: a write that torch sees hit a saved tensor that backward needs.

torch keeps one version counter for all views of a storage and refuses as soon as it has changed, whichever
elements were written. The verdict here is the same; ``harmless`` adds whether any needed element really
changed.
"""

from __future__ import annotations

from dataclasses import replace

from ...model import Finding, Fix, Help, Save, Site, Write
from ...model.text import listing
from ...syntax import torch_table
from .._evidence import Evidence, StaleEvidence
from . import _own_writes
from ._wording import SPOILT, Wording, filled
from ._words import line, quoted, with_a_copy

WORDING = Wording(SPOILT)
_KEPT = Wording(SPOILT, {"write": "written here ({operation})"})
"""Sentences for a tensor that the writes left as it was, if they changed others that backward needs."""
_UNREAD = Wording(SPOILT, variant="unread")
_DETACHED = Wording(
    SPOILT,
    {"write": "detached in place here ({operation})"},
    notes=("torch asks a tensor that it has saved for its history, which `detach_` has dropped",),
    helps=(Help.DETACHED,),
    variant="detached",
)
_UNWATCHED = Wording(
    "a tensor that was saved before watching began was overwritten",
    notes=("it was saved where unclobber did not look, so neither the save nor the write is known",),
    helps=(Help.UNWATCHED,),
    variant="unwatched",
)
_COMPILED = Wording(
    SPOILT,
    {"needed": "torch.compile compiles it here"},
    notes=("torch.compile traces the backward while it compiles, and there torch refuses it",),
    variant="compiled",
)
FROZEN = Wording(
    "{what} was written to while it is frozen",
    {"saved": "frozen here", "write": "would be written here ({operation})"},
    helps=(Help.UNFREEZE,),
    variant="frozen",
)
_NOTES = (
    "{past_torch}",
    "{spared}, but the same backward needs what {others}, and that has changed",
    "the version counter moved without a write that unclobber could see{so}",
)


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding if torch's check refuses the saved tensor, or its history was dropped; else None."""
    if evidence.kind != "saved":
        return None
    if evidence.detached is not None and not evidence.repaired:
        return _detached(evidence, evidence.detached)
    if not evidence.moved or evidence.line_range is not None:
        return None
    # The observed writes include every write that bumped the counter.
    as_saved = bool(evidence.writes) and evidence.value_known and not evidence.changed and not evidence.unseen
    # Where no derivative reads the values, torch refuses although the gradient is right
    # (tests/unit/explain/test_unread.py).
    kept = as_saved or (evidence.unread and bool(evidence.writes))
    # Another tensor that the same backward needs may have changed, and then the gradient is wrong
    # (tests/unit/explain/test_others_changed.py).
    harmless = kept and not evidence.changed_too and evidence.past_torch is None
    # In a loop the same line may have saved a tensor that did change: then a mask of ones is chance.
    at_times = _called(evidence.save.site) in map(_called, evidence.changed_too)
    how = "was overwritten" if evidence.writes else "was modified"
    if as_saved:
        how = "was written to" if at_times else _kept(evidence)
    wording = _UNREAD if harmless and not as_saved else WORDING
    if as_saved and evidence.changed_too and evidence.overwriting:
        wording = _KEPT
    so = "; the writes shown may not be all" if evidence.writes else ", so the line that wrote is not known"
    left = "no write that was seen changed" if as_saved else "no gradient that is computed here reads"
    spared = f"{left} {'what this call saved' if at_times else 'this tensor'}"
    names = {
        "how": how,
        "past_torch": evidence.past_torch,
        "spared": spared if kept and evidence.changed_too else None,
        "others": f"{_others(evidence)} saved{' in other calls' if at_times else ', too'}",
        "so": so if evidence.unseen else None,
        "operation": evidence.writes[0].operation if evidence.writes else None,
    }
    return wording.of_saved(
        "UC101",
        evidence,
        names,
        writes=evidence.writes,
        harmless=harmless,
        fixes=_ways_out(evidence),
        notes=(*filled(_NOTES, names), *_own_writes.notes(evidence)),
        torch_message=evidence.torch_message,
    )


def _detached(evidence: Evidence, write: Write) -> Finding:
    """Return the finding for ``write``, the ``detach_()``: no value is lost, but torch refuses.

    torch keeps the tensor itself if the operation didn't make it, and reads its history when backward needs
    it. ``detach_`` has dropped that history.
    """
    tensor = write.expression or "x"
    alone = write.site is not None and write.site.statement == f"{tensor}.detach_()"
    instead = f"{tensor} = {tensor}.detach()" if alone else f"{tensor}.detach()"
    unchanged = evidence.value_known and not evidence.changed and not evidence.moved
    return _DETACHED.of_saved(
        "UC101",
        evidence,
        {"how": "was detached in place", "operation": write.operation},
        lines={Help.DETACHED: instead},
        writes=(write,),
        harmless=unchanged and evidence.past_torch is None,
        torch_message=evidence.torch_message,
        kept_bytes=0,
    )


def judge_stale(evidence: StaleEvidence) -> Finding:
    """Return the finding for torch's own refusal of a save before watching began, or in compiled code.

    Nothing was recorded of a save before, so that finding names only the backward.
    """
    message = evidence.torch_message
    if evidence.saved is not None:
        return _COMPILED.of_compiled("UC101", evidence, "was overwritten", torch_message=message)
    return _UNWATCHED.finding("UC101", needed=evidence.needed, torch_message=message)


def judge_frozen(save: Save, write: Write) -> Finding:  # the program itself has frozen the tensor
    names = {"what": quoted(save.expression, "a tensor"), "operation": write.operation}
    return FROZEN.finding("UC101", names, saved=save, writes=(write,))


def _kept(evidence: Evidence) -> str:
    """Return what was done to a tensor whose needed values are as they were saved."""
    touched = sum(write.count for write in evidence.overwriting)
    if touched:
        return f"was written to, but {'holds the same values' if touched > 1 else 'not changed'},"
    shared = "version counter" if all(write.reached == "other" for write in evidence.writes) else "storage"
    if not all(write.shape_only for write in evidence.writes):
        return f"shares its {shared} with memory that was written"
    own = all(write.expression == evidence.save.expression is not None for write in evidence.writes)
    changed = "was changed in shape or strides, in no value,"
    return changed if own else f"shares its {shared} with a tensor that {changed}"


def _called(site: Site | None) -> Site | None:  # the same call, whoever called the function around it
    return None if site is None else replace(site, stack=())


def _others(evidence: Evidence) -> str:
    lines = [line(site, (evidence.save, evidence.need)) for site in evidence.changed_too if site is not None]
    return listing(list(dict.fromkeys(lines)), limit=3) or "another operation"


def _takes_inplace(module: str) -> bool:
    return module.rpartition("(")[2].rstrip(")") in torch_table().inplace  # `trunk.2 (Dropout)`


def _ways_out(evidence: Evidence) -> tuple[Fix, ...]:
    """Return the fixes for the last write that hit, and guard."""
    last = evidence.culprit
    fixes: list[Fix] = []
    if theirs := _own_writes.ways_out(evidence):
        fixes.extend(theirs)
    # `nn.Embedding(max_norm=…)` writes its weight at each lookup: tests/guard/test_guard_writes.py.
    elif last is not None and last.operation == "embedding_renorm_":
        fixes.append(Help.MAX_NORM.fix())
    elif last is not None and last.module and _takes_inplace(last.module):
        modules = listing(list(filter(_takes_inplace, last.modules)), limit=6)
        fixes.append(Help.CONSTRUCT_WITHOUT_INPLACE.fix(module=modules))
    elif last is not None and last.site is not None and "inplace=True" in last.site.source:
        fixes.append(Help.CALL_WITHOUT_INPLACE.fix())
    else:
        fixes.append(with_a_copy(evidence.save, evidence.writes))
    # Otherwise guard would need the value before the unseen change, or one with a history.
    seen = bool(evidence.writes) or not evidence.unseen
    if seen and evidence.past_torch is None and not evidence.differentiated:
        fixes.append(Help.GUARD.fix())
    return tuple(fixes)
