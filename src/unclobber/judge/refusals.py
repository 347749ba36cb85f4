"""Judge what torch refused by itself: the code is torch's, what it leaves out is ours to tell."""

from __future__ import annotations

from collections.abc import Callable

from ..model import Finding, FreedEvidence, RefusalEvidence, StaleEvidence
from .rules import _refused, uc101_stale, uc201, uc202, uc203, uc204, uc205, uc206, uc207, uc208, uc301

_AT_THE_WRITE: dict[str, Callable[[RefusalEvidence], Finding]] = {
    "UC201": uc201.judge,
    "UC202": uc202.judge,
    "UC203": uc203.judge,
    "UC204": uc204.judge,
    "UC205": uc205.judge,
    "UC206": uc206.judge,
    "UC207": uc207.judge,
    "UC208": uc208.judge,
}


def judge_refusal(evidence: RefusalEvidence | FreedEvidence | StaleEvidence) -> Finding:
    """The finding for an error that torch has raised."""
    if isinstance(evidence, FreedEvidence):
        return uc301.judge(evidence)
    if isinstance(evidence, StaleEvidence):
        return uc101_stale.judge(evidence)
    if evidence.used is not None:
        return _refused.judge_use(evidence)
    return _AT_THE_WRITE[evidence.code](evidence)
