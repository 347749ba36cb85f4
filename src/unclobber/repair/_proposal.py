"""What a cure hands back: one edit that may be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model import Finding

AS_WRITTEN = "as written"
NOT_RECORDED = "with the write not recorded"
RECORDED = "with the write recorded"
ONE_BY_ONE = "with each view taken on its own"
VIEW_RECORDED = "with the view taken in normal mode"
COPIED_OUTPUT = "with the custom Function's output copied"
NO_GRAD = "with no_grad for inference_mode"
VIEW_DETACHED = "with the view detached alone"
KEPT_ON_CTX = "with the tensors on ctx as they were in forward"
WRITTEN_BACK = "with the custom Function run on a copy and its result written back"
CUT = "with the gradient stopped at the graph that was freed"
KEPT = "with every graph kept"
OWN_MEMORY = "with memory of its own for what is expanded"

READINGS = {
    "UC101": AS_WRITTEN,
    "UC102": AS_WRITTEN,
    "UC103": KEPT_ON_CTX,
    "UC201": RECORDED,
    "UC202": RECORDED,
    "UC203": ONE_BY_ONE,
    "UC204": VIEW_RECORDED,
    "UC205": COPIED_OUTPUT,
    "UC206": NO_GRAD,
    "UC207": OWN_MEMORY,
    "UC208": VIEW_DETACHED,
    "UC301": CUT,
}
"""What a program is taken to mean where torch refuses it, by code. Every reading is run from the
program as it is, under ``guard``, without the candidate's edits. Codes that are not here have no
reading that could be run, so nothing can be proved for them."""


def reading_of(finding: Finding) -> str | None:
    """What the program is taken to mean where torch refuses it, or is wrong, in this way."""
    if finding.code == "UC103" and finding.saved is not None and finding.saved.role is None:
        return WRITTEN_BACK  # an input that was overwritten unmarked: nothing is kept on ctx
    return READINGS.get(finding.code)


@dataclass(frozen=True, slots=True)
class Proposal:
    """One edit of one or more files, not yet tried."""

    cure: str
    title: str
    """A phrase that says what the edit does: ``write `d` out of place``."""
    texts: Mapping[str, str]
    """Absolute path to the whole new text."""
    reading: str | None = None
    """The reading it is meant for, where it isn't the usual one of the finding's code."""
    offered: bool = False
    """It changes what the program computes: shown, never written."""
    note: str = ""
    """What the user must know before taking it."""
    hides: str = ""
    """A name that it binds anew although others may hold the tensor: they no longer see the write."""
    drops: bool = False
    """The write is no longer made at all: only what its statement binds gets the new value."""
    late: bool = False
    """Among equally small edits, try and prefer it after the others."""
