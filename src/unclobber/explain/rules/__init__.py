"""The rules of the codes, one file a code, found by the code's name; its ``judge`` turns evidence into a
finding.

A judgement is a pure function of facts: no torch, no clock, no files. A code without a ``judge`` is judged
from other facts than the evidence of its stage.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...model import CODES, Finding, Stage, Variant
from .._evidence import Evidence, FreedEvidence, RefusalEvidence, StaleEvidence
from . import _refused, uc101_stale, uc301, uc301_donated


def _judges(stage: Stage) -> dict[str, Any]:
    modules = {
        code: import_module(f".{code.lower()}", __name__)
        for code, entry in CODES.items()
        if entry.stage == stage
    }
    return {code: module.judge for code, module in modules.items() if hasattr(module, "judge")}


def rule_of(code: str, variant: Variant | None) -> Any:
    name = code.lower() if variant is None else f"{code.lower()}_{variant.replace('-', '_')}"
    return import_module(f".{name}", __name__)  # `uc102_self_overlap`


OVERWRITTEN: dict[str, Callable[[Evidence], Finding | None]] = _judges("backward")
"""Rules for a saved tensor that backward unpacks; no two of them match the same evidence."""
REFUSED: dict[str, Callable[[RefusalEvidence], Finding]] = _judges("write")  # rules for refused operations


def judge(evidence: Evidence) -> Finding | None:
    return next((finding for rule in OVERWRITTEN.values() if (finding := rule(evidence)) is not None), None)


def judge_refusal(evidence: RefusalEvidence | FreedEvidence | StaleEvidence) -> Finding:
    """Return the finding for an error that torch has raised: its code follows the error."""
    if isinstance(evidence, FreedEvidence):
        return uc301_donated.judge(evidence) if evidence.donated else uc301.judge(evidence)
    if isinstance(evidence, StaleEvidence):
        return uc101_stale.judge(evidence)
    if evidence.used is not None:
        return _refused.judge_use(evidence)
    return REFUSED[evidence.code](evidence)
