"""Judge torch's own refusals: the code follows torch's error, and the finding adds the facts that it leaves
out."""

from __future__ import annotations

from ..model import Finding, FreedEvidence, RefusalEvidence, StaleEvidence
from .rules import REFUSED, _refused, uc101_stale, uc301


def judge_refusal(evidence: RefusalEvidence | FreedEvidence | StaleEvidence) -> Finding:
    """Return the finding for an error that torch has raised."""
    if isinstance(evidence, FreedEvidence):
        return uc301.judge(evidence)
    if isinstance(evidence, StaleEvidence):
        return uc101_stale.judge(evidence)
    if evidence.used is not None:
        return _refused.judge_use(evidence)
    return REFUSED[evidence.code](evidence)
