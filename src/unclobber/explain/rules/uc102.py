"""UC102 saved-overwritten-silently: a write that torch doesn't see changed a saved tensor.

The version counter is unchanged, so backward goes on with the wrong values and no error. Only a changed value
is a finding; a write of the same values, or to other elements, is not.
"""

from __future__ import annotations

from ...model import Finding, Fix, Help
from .._evidence import Evidence
from . import _own_writes
from ._wording import SILENT, SPOILT, Wording
from ._words import with_a_copy

WORDING = Wording(SPOILT, notes=(SILENT,))
_BY_CONTENT = Wording(SPOILT, notes=(SILENT,), helps=(Help.PAST_TORCH_LATER, Help.PAST_TORCH_COPY))
_UNCHECKED = (
    "saved-tensor hooks (a checkpoint's, save_on_cpu's or your own) kept it, and then torch compares no "
    "version counters"
)
_SEEN_UNDER_NO_GRAD = "torch would see the write, and refuse, under torch.no_grad() instead of through .data"


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding if a write that bumped no counter changed the tensor; else None."""
    if evidence.kind != "saved":
        return None
    if evidence.line_range is not None:
        # A line is named only if it alone can have written.
        written = () if evidence.written is None else (evidence.written,)
        names, notes = {"how": "was changed past torch"}, (evidence.line_range,)
        return _BY_CONTENT.of_saved("UC102", evidence, names, writes=written, notes=notes)
    if evidence.moved:
        return None
    if evidence.storage_swapped:
        return _finding(evidence)
    if evidence.changed and evidence.overwriting:
        return _finding(evidence, how="was overwritten unseen by torch")
    return None


def _finding(evidence: Evidence, **names: str) -> Finding:
    """Return the finding with the writes that touched the tensor."""
    notes = _own_writes.notes(evidence)
    if evidence.unchecked:
        notes = (*notes, _UNCHECKED)
    last = evidence.culprit
    if last is not None and not last.library and last.past_counter in ("data", "set data"):
        notes = (*notes, _SEEN_UNDER_NO_GRAD)
    fixes = _own_writes.ways_out(evidence) or (_way_out(evidence),)
    return WORDING.of_saved("UC102", evidence, names, fixes=fixes, notes=notes)


def _way_out(evidence: Evidence) -> Fix:
    last = evidence.culprit
    if last is not None and last.optimizer:
        return _own_writes.after_step(evidence, last.optimizer)
    if last is not None and last.past_counter == "statistics":
        return Help.ONE_MODE.fix()
    return with_a_copy(evidence.save) if evidence.save.role == "result" else Help.LATER.fix()
