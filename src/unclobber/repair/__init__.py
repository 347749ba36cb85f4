"""Findings to edits of the user's source, each of them proved by running it.

``_plan`` asks the cures for candidates, ``proof`` runs each candidate in a process of its own and
compares its gradients with those of the original under ``guard``, ``_search`` joins the two and
``apply`` writes what was proved. Nothing here is imported by ``import unclobber``.
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
