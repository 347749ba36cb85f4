"""UC102 saved-overwritten-silently: a write that torch doesn't see changed a saved tensor.

The version counter is unchanged, so backward goes on with the wrong values and no error. Only a changed value
is a finding; a write of the same values, or to other elements, is not.
"""

from __future__ import annotations

from ...model import Finding, Fix, Help, culprit, touching
from .._evidence import Evidence
from . import _own_writes
from ._words import after_backward, sentence, with_a_copy

_UNCHECKED = (
    "saved-tensor hooks (a checkpoint's, save_on_cpu's or your own) kept it, and then torch compares no "
    "version counters"
)
_REPORTS_NOTHING = "torch reports nothing here: backward would go on with the changed values"
_SEEN_UNDER_NO_GRAD = "torch would see the write, and refuse, under torch.no_grad() instead of through .data"


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding if a write that bumped no counter changed the tensor; else None."""
    if evidence.kind != "saved":
        return None
    if evidence.line_range is not None:
        return _by_content(evidence, evidence.line_range)
    if evidence.moved:
        return None
    if evidence.storage_swapped:
        return _finding(evidence, "was given other memory")
    if evidence.changed and any(write.overlaps_needed for write in evidence.writes):
        return _finding(evidence, "was overwritten unseen by torch")
    return None


def _finding(evidence: Evidence, how: str) -> Finding:
    """Return the finding with the writes that touched the tensor."""
    notes = _own_writes.notes(evidence)
    if evidence.unchecked:
        notes = (*notes, _UNCHECKED)
    last = culprit(evidence.writes)
    if last is not None and not last.library and last.past_counter in ("data", "set data"):
        notes = (*notes, _SEEN_UNDER_NO_GRAD)
    return Finding(
        code="UC102",
        message=sentence(evidence.save, how),
        saved=evidence.save,
        writes=touching(evidence.writes),
        needed=evidence.need,
        fixes=() if evidence.repaired else _own_writes.ways_out(evidence) or _ways_out(evidence),
        notes=notes if evidence.repaired else (*notes, _REPORTS_NOTHING),
        kept_bytes=evidence.kept_bytes,
        repaired=evidence.repaired,
    )


def _by_content(evidence: Evidence, line_range: str) -> Finding:
    """Return the finding for a changed content hash; it names a line only if that line alone can have
    written."""
    return Finding(
        code="UC102",
        message=sentence(evidence.save, "was changed past torch"),
        saved=evidence.save,
        writes=() if evidence.written is None else (evidence.written,),
        needed=evidence.need,
        fixes=() if evidence.repaired else (Help.PAST_TORCH_LATER.fix(), Help.PAST_TORCH_COPY.fix()),
        notes=(line_range,) if evidence.repaired else (line_range, _REPORTS_NOTHING),
        kept_bytes=evidence.kept_bytes,
        repaired=evidence.repaired,
    )


def _ways_out(evidence: Evidence) -> tuple[Fix, ...]:
    """Return the fixes by the last write that hit: an optimizer, ``.data``, or another."""
    last = culprit(evidence.writes)
    if last is not None and last.optimizer:
        return (after_backward(last.optimizer, in_loop=evidence.went_before),)
    if last is not None and last.past_counter == "statistics":
        return (Help.ONE_MODE.fix(),)
    return (with_a_copy(evidence.save) if evidence.save.role == "result" else Help.LATER.fix(),)
