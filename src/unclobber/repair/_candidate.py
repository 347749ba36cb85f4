"""A fixer's result: one edit that may be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model import Finding, Interpretation


def interpretation_of(finding: Finding) -> Interpretation | None:
    """Return the interpretation of the program with which a candidate is compared.

    Used if torch refuses the program as written, or computes a wrong gradient. It is the same program with
    the finding's cause made harmless, such as the write left unrecorded.
    """
    if finding.code == "UC105" and finding.kept_bytes:
        return Interpretation.AS_WRITTEN  # guard hands the recomputation what was overwritten
    if finding.code == "UC203" and finding.torch_message:
        # Imported here, because candidates for what `check` finds need no torch.
        from ..torch_internals import compat

        # A module with a full backward hook that returns several tensors: tests/programs/helps.py.
        if compat.entries.MODULE_HOOK in finding.torch_message:
            return Interpretation.COPIED_OUTPUT
    by_variant = {"unmarked": Interpretation.WRITTEN_BACK, "expanded": Interpretation.OWN_MEMORY}
    return by_variant.get(finding.variant or "", finding.entry.interpretation)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fix candidate: an edit of one or more files, not yet run."""

    title: str  # a phrase that describes the edit: ``write `d` out of place``
    texts: Mapping[str, str]  # absolute path to the whole new text
    interpretation: Interpretation | None = None
    """The interpretation that it is meant for, if it isn't the usual one of the finding's code."""
    offered: bool = False  # whether it changes the program's result: such an edit is shown, never written
    moves: bool = False
    """Whether it calls backward in another order: calls are matched by their losses, and gradients that are
    left at the end count for nothing."""
    note: str = ""  # a warning that the user must read before taking it
    shared_name: str = ""
    """A name that it binds to a new tensor although others may hold the old one, and miss the write."""
    hides_nothing: bool = False
    """Whether no holder can miss a write: it stays, or every read of what was written is rewritten."""
    unbinds: frozenset[str] = frozenset()  # names that it no longer binds and that are not read later
    drops: bool = False
    """Whether the write is no longer made: only the names that its statement binds get the new value."""
    guess: bool = False  # whether the edited expression is only probably the right one
    whole: str = ""  # a tensor that each turn of a loop copies as a whole, although it takes parts alone
    late: bool = False  # whether to try and prefer it after other edits of the same size
    fixer: str = ""  # the fixer's name, which the table of fixers sets

    @property
    def in_doubt(self) -> bool:
        """True if the program may lose a write or a gradient by it, or the user must decide: such an edit is
        shown only once it is proved."""
        doubts = self.offered or self.guess or self.moves or self.drops or self.late
        return doubts or bool(self.shared_name or self.note or self.whole)
