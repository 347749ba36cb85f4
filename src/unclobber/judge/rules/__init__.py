"""The rules of the codes, one file a code, found by the code's name; its ``judge`` turns evidence into a
finding.

A code without a ``judge`` is judged from other facts than the evidence of its stage.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...model import CODES, Evidence, Finding, RefusalEvidence, Stage


def _judges(stage: Stage) -> dict[str, Any]:
    """Import the modules of a stage's codes and return their ``judge`` functions."""
    modules = {
        code: import_module(f".{code.lower()}", __name__)
        for code, entry in CODES.items()
        if entry.stage == stage
    }
    return {code: module.judge for code, module in modules.items() if hasattr(module, "judge")}


OVERWRITTEN: dict[str, Callable[[Evidence], Finding | None]] = _judges("backward")
"""Rules for a saved tensor that backward unpacks; no two of them match the same evidence."""
REFUSED: dict[str, Callable[[RefusalEvidence], Finding]] = _judges("write")
"""Rules for operations that torch refuses at once."""
