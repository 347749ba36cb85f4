"""One file a code, found by the code's name; ``judge`` in it turns evidence into a finding.

A code without a ``judge`` is told from something else than the evidence of its stage.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...model import CODES, Evidence, Finding, RefusalEvidence, Stage


def _judges(stage: Stage) -> dict[str, Any]:
    modules = {
        code: import_module(f".{code.lower()}", __name__)
        for code, entry in CODES.items()
        if entry.stage == stage
    }
    return {code: module.judge for code, module in modules.items() if hasattr(module, "judge")}


OVERWRITTEN: dict[str, Callable[[Evidence], Finding | None]] = _judges("backward")
"""For a saved tensor that backward asks for; no two of them find something in the same evidence."""
REFUSED: dict[str, Callable[[RefusalEvidence], Finding]] = _judges("write")
"""For what torch refuses on the spot."""
