"""Edits of the user's source from findings, each proved by running it.

``_plan`` collects candidates from the ``fixers``. ``proof`` runs each candidate in a process of its
own and compares its gradients with those of the original under ``guard``. ``_search`` joins the two, and
``apply`` writes the proved edits. ``import unclobber`` imports nothing here.
"""

__all__ = [
    "apply",
    "candidates",
    "diff",
    "differences",
    "edits",
    "given",
    "outcome",
    "project",
    "proof",
    "rounds",
]
