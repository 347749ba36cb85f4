"""The rules of the codes, one file a code, found by the code's name; its ``judge`` turns evidence into a
finding.

A judgement is a pure function of facts: no torch, no clock, no files. A code without a ``judge`` is judged
from other facts than the evidence of its stage.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...model import CODES, Finding
from .._evidence import Evidence, FreedEvidence, RefusalEvidence, StaleEvidence
from . import _refused, uc101, uc301


def rule_of(code: str) -> Any:
    return import_module(f".{code.lower()}", __name__)


_JUDGES: dict[str, Callable[[Any], Any]] = {
    code: rule for code in CODES if (rule := getattr(rule_of(code), "judge", None)) is not None
}
_OVERWRITTEN: list[Callable[[Evidence], Finding | None]] = [
    rule for code, rule in _JUDGES.items() if CODES[code].stage == "backward"
]
"""Rules for a saved tensor that backward unpacks; no two of them match the same evidence."""


def judge(evidence: Evidence) -> Finding | None:
    return next((finding for rule in _OVERWRITTEN if (finding := rule(evidence)) is not None), None)


def judge_refusal(evidence: RefusalEvidence | FreedEvidence | StaleEvidence) -> Finding:
    """Return the finding for an error that torch has raised: its code follows the error."""
    if isinstance(evidence, FreedEvidence):
        return uc301.judge(evidence)
    if isinstance(evidence, StaleEvidence):
        return uc101.judge_stale(evidence)
    if evidence.used is not None:
        return _refused.judge_use(evidence)
    finding: Finding = _JUDGES[evidence.code](evidence)
    return finding
