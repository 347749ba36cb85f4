"""Judge whether writes spoilt saved tensors.

A judgement is a pure function of facts: no torch, no clock, no files. ``evidence`` holds the facts that are
visible only while a program runs; layout belongs to ``report``. Each file in ``rules/`` is one kind of
mistake.
"""

from __future__ import annotations

from ..model import Evidence, Finding
from ._outcome import outcome
from ._without_story import judge_without_story, without_places
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
    "judge_without_story",
    "outcome",
    "pages",
    "refusals",
    "without_places",
]


def judge(evidence: Evidence) -> Finding | None:
    """Return the finding that the evidence supports; None if the program is allowed to do this."""
    for rule in OVERWRITTEN.values():
        finding = rule(evidence)
        if finding is not None:
            return finding
    return None
