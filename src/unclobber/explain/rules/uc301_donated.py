"""UC301 graph-freed, in compiled code: this backward is to keep its graph, which was compiled to be used up.

The first backward through compiled code compiles it. If that one doesn't keep its graph, the code reuses the
memory of what was saved ("donated buffers"), and torch refuses each later backward that keeps its graph.
"""

from __future__ import annotations

from ...model import Finding, Help
from .._evidence import FreedEvidence
from ._wording import Wording

WORDING = Wording(
    "this backward is to keep its graph, and its compiled code uses up what it saved",
    {"needed": "the graph is to be kept here", "freed": "backward {nth} did not keep its graph here"},
    (
        "the first backward through compiled code compiles it: if that one doesn't keep its graph, the code "
        "reuses the memory of what was saved",
        "nothing was overwritten: torch refuses before anything is computed",
    ),
    (Help.KEEP_FIRST, Help.NOT_DONATED),
    variant="donated",
)


def judge(evidence: FreedEvidence) -> Finding:
    """Return the finding for a backward that keeps a graph of which the buffers are donated."""
    freed = evidence.freed
    return WORDING.finding(
        "UC301",
        {"nth": None if freed is None else str(freed.nth)},
        needed=evidence.needed,
        freed=freed,
        torch_message=evidence.torch_message,
    )
