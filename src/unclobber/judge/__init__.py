"""Decide which writes spoilt which saved tensors.

A judgement is a pure function of facts: no torch, no clock, no files. What can only be seen while
a program runs was written down in ``evidence``; layout belongs to ``report``. One file in ``rules/`` is
one way to be wrong.
"""

from __future__ import annotations

from ..model import Evidence, Finding
from ._outcome import outcome
from ._untold import judge_untold, without_places
from .rules import OVERWRITTEN
from .rules.frozen import judge_frozen
from .rules.uc102_self_overlap import judge_self_overlap
from .rules.uc103 import judge_dirty, judge_unmarked
from .rules.uc104 import judge_gradient

__all__ = [
    "judge",
    "judge_dirty",
    "judge_frozen",
    "judge_gradient",
    "judge_self_overlap",
    "judge_unmarked",
    "judge_untold",
    "outcome",
    "pages",
    "refusals",
    "without_places",
]


def judge(evidence: Evidence) -> Finding | None:
    """The finding that the evidence supports, or None: the program is allowed to do this."""
    for rule in OVERWRITTEN.values():
        finding = rule(evidence)
        if finding is not None:
            return finding
    return None
