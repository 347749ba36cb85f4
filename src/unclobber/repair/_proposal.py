"""What a cure hands back: one edit that may be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model import Finding, Reading

AS_WRITTEN: Reading = "as written"
NOT_RECORDED: Reading = "with the write not recorded"
RECORDED: Reading = "with the write recorded"
ONE_BY_ONE: Reading = "with each view taken on its own"
VIEW_RECORDED: Reading = "with the view taken in normal mode"
COPIED_OUTPUT: Reading = "with the custom Function's output copied"
NO_GRAD: Reading = "with no_grad for inference_mode"
VIEW_DETACHED: Reading = "with the view detached alone"
KEPT_ON_CTX: Reading = "with the tensors on ctx as they were in forward"
WRITTEN_BACK: Reading = "with the custom Function run on a copy and its result written back"
CUT: Reading = "with the gradient stopped at the graph that was freed"
KEPT: Reading = "with every graph kept"
OWN_MEMORY: Reading = "with memory of its own for what is expanded"


def reading_of(finding: Finding) -> Reading | None:
    """Which program a cure is compared with, where torch refuses the one as written, or computes a wrong
    gradient: the same one with the finding's cause made harmless, such as the write left unrecorded."""
    return WRITTEN_BACK if finding.variant == "unmarked" else finding.entry.reading


@dataclass(frozen=True, slots=True)
class Proposal:
    """One edit of one or more files, not yet tried."""

    cure: str
    title: str
    """A phrase that says what the edit does: ``write `d` out of place``."""
    texts: Mapping[str, str]
    """Absolute path to the whole new text."""
    reading: Reading | None = None
    """The reading it is meant for, where it isn't the usual one of the finding's code."""
    offered: bool = False
    """It changes what the program computes: shown, never written."""
    joins: bool = False
    """One backward call of it stands for two: it is tried beside the others, and proved like them."""
    note: str = ""
    """What the user must know before taking it."""
    hides: str = ""
    """A name that it binds anew although others may hold the tensor: they no longer see the write."""
    drops: bool = False
    """The write is no longer made at all: only what its statement binds gets the new value."""
    guess: bool = False
    """Which expression it is about is not certain."""
    late: bool = False
    """Among equally small edits, try and prefer it after the others."""

    @property
    def in_doubt(self) -> bool:
        """Whether the program may lose a write or a gradient by it, or the user must decide: such an edit is
        shown only once it is proved."""
        flags = (self.offered, self.guess, self.joins, self.hides, self.drops, self.late, self.note)
        return any(flags)
