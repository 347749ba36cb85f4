"""Explanations of conflicts: from the raw facts to a finding, with the program's lines, names and formulas.

``occurrences`` has an entry for each way in which a session learns of a conflict. ``describe`` and
``refused`` build the evidence of one, ``rules`` judge it, and ``boundary`` answers if an internal error
prevents both. ``spelling`` finds the program's words for a tensor, and ``origins`` the
expression that made it. ``verdict`` decides at an unpack: it, ``reads`` and ``sentence`` read no source.
"""

from ..derivatives import by_node
from .boundary import bare_finding
from .occurrences import Occurrence, SeenConflicts, of_frozen
from .reads import is_unpacking
from .unobserved import notices
from .verdict import Verdict

__all__ = [
    "Occurrence", "SeenConflicts", "Verdict", "bare_finding", "is_unpacking", "notices", "of_frozen",
    "prepare",
]  # fmt: skip


def prepare() -> None:
    """Read torch's derivative table now, and not at the first finding."""
    by_node("")
