"""Judge what torch refused by itself: the code is torch's, what it leaves out is ours to tell."""

from __future__ import annotations

from ..model import Finding, FreedEvidence, RefusalEvidence, StaleEvidence
from .rules import REFUSED, _refused, uc101_stale, uc301


def judge_refusal(evidence: RefusalEvidence | FreedEvidence | StaleEvidence) -> Finding:
    """The finding for an error that torch has raised."""
    if isinstance(evidence, FreedEvidence):
        return uc301.judge(evidence)
    if isinstance(evidence, StaleEvidence):
        return uc101_stale.judge(evidence)
    if evidence.used is not None:
        return _refused.judge_use(evidence)
    return REFUSED[evidence.code](evidence)
