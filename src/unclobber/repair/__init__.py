"""Edits of the user's source from findings, each proved by running it.

``_plan`` collects candidates from the ``fixers``. ``_trial`` runs the program with each in a process of its
own and compares its gradients with those of the original under ``guard``; ``_search`` joins the two.
``import unclobber`` imports nothing here, and importing this room loads no fixer: its names do, when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..model import Report

if TYPE_CHECKING:
    from .candidates import Ends, together
    from .given import Prover
    from .kept import KeptFix
    from .project import Project
    from .proof import Runner
    from .rounds import Rounds, fix

__all__ = [
    "KeptFix", "Project", "Prover", "Rounds", "Runner", "fix", "main_module", "together", "with_candidates",
]  # fmt: skip

_HOME = {
    "KeptFix": "kept",
    "Project": "project",
    "Prover": "given",
    "Rounds": "rounds",
    "Runner": "proof",
    "fix": "rounds",
    "together": "candidates",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def with_candidates(
    report: Report, script: str | None = None, *, every: bool = False, ends: Ends | None = None
) -> Report:
    """Return the report with an unproved edit in each of its first findings. Never raises.

    Args:
        report: The report of a run that has ended, or of sources.
        script: Absolute path of the script that ``report.command`` ran; None for anything else.
        every: Whether each finding may get one, however many there are and however long their files.
        ends: Whether an edit ends a finding, as far as is known without running it; None to take any.
    """
    if all(finding.repaired for finding in report.findings):
        return report  # before the fixers are loaded
    from .candidates import with_candidates

    return with_candidates(report, script, every=every, ends=ends)
