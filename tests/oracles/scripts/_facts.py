"""What both oracles say of a script: plain torch, and runs with copies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ._copies import Need, Truth, truth, with_copies
from ._run import Ending, begins, difference, first_sentence, run, same
from ._script import Script

Family = Literal["none", "version", "others", "illegal"]

_OTHERS = (
    "a leaf Variable that requires grad",
    "a view of a leaf Variable",
    "is a view and",
    "is being modified inplace",
    "backward through the graph a second time",
    "Inference tensors cannot be saved",
    "update to inference tensor",
    "written-to tensor",
    "some elements of the input",
    "detach views in-place",
    "detached in-place",
)
"""What torch says when it refuses at the write, or a second backward."""


def family_of(error: Exception | None) -> Family:
    """What kind of error torch has raised."""
    if error is None:
        return "none"
    text = str(error)
    if "modified by an inplace operation: [" in text:
        return "version"
    return "others" if any(words in text for words in _OTHERS) else "illegal"


@dataclass(frozen=True)
class Facts:
    """One script, as it runs plain and as it should run."""

    script: Script
    plain: Ending
    truth: Truth

    @property
    def family(self) -> Family:
        """What plain torch says: nothing, its version check, another refusal of the kind that we explain,
        or that the script is wrong for reasons of its own."""
        return family_of(self.plain.error)

    def ends_by_itself(self, error: Exception | None) -> bool:
        """Whether a run that goes on where plain torch refuses has met an error of the script's own."""
        return family_of(error) == "illegal" and first_sentence(error) == self.truth.ending.sentence

    @property
    def checkpointed(self) -> bool:
        """Saves and needs are a checkpoint's, and other ones than in a run with copies, which has none."""
        return self.script.uses("checkpoint(")

    @property
    def swaps(self) -> bool:
        """A tensor is given other memory; what was saved of it is looked for where it was."""
        return self.script.uses(".data =")

    @property
    def past_torch(self) -> bool:
        """Memory is written by others than torch: the old values are gone, and only a hash can tell."""
        return self.script.uses(".numpy()")

    @property
    def rounding(self) -> float:
        """By how much of the largest value gradients may differ: a reentrant checkpoint adds up elsewhere."""
        if not self.script.uses("use_reentrant=True"):
            return 0.0
        return 2e-2 if self.script.uses("bfloat16") else 1e-5

    @cached_property
    def right_already(self) -> bool:
        """Plain torch gives the gradients of value semantics, to the bit."""
        return self.plain.error is None and same(self.plain.kept, self.truth.ending.kept)

    @property
    def astray(self) -> bool:
        """Plain torch has other gradients than those of value semantics, however it ends."""
        return self.differentiates_changed_values or not begins(self.plain.kept, self.truth.ending.kept)

    @cached_property
    def differentiates_changed_values(self) -> bool:
        """A backward with ``create_graph`` gets changed values, and what it computes of them is saved."""
        text = str(self.script).splitlines()
        lines = {line for need in self.truth.needs if need.changed for line in need.lines}
        return any("create_graph=True" in text[line - 1] for line in lines)

    @property
    def wrong_before_the_end(self) -> bool:
        """Plain torch gives other gradients than those of value semantics before it raises, to the bit."""
        return self.plain.error is not None and not same(self.plain.kept, self.truth.ending.kept)

    @property
    def runs_again_otherwise(self) -> bool:
        """A checkpoint's code changes what it reads again, if too little for a gradient to show."""
        return self.checkpointed and self.script.uses("spectral_norm(")

    @property
    def silently_wrong(self) -> bool:
        """Plain torch gives other gradients, and more than rounding makes them so."""
        found = difference(self.plain.kept, self.truth.ending.kept, tolerance=self.rounding)
        return self.plain.error is None and found is not None

    @property
    def anything_changed(self) -> bool:
        """Whether backward asked for anything that had been overwritten with other values."""
        if (self.checkpointed or self.swaps) and not self.right_already:
            return True
        writes = self.truth.writes or [[]] * len(self.truth.needs)
        return any(
            need.changed and (not lines or any(lines & set(write.lines) for write in written))
            for need, written in zip(self.truth.needs, writes, strict=True)
            for lines in [self._run_again(need)]
        )

    def _run_again(self, need: Need) -> set[int]:
        """The checkpoint's lines under which the tensor was saved: run again, the code saves it anew, and
        only what that code writes itself can reach it. What it was given is read as it lies there then."""
        text = str(self.script).splitlines()
        lines = {line for line in need.saved.lines if "checkpoint(" in text[line - 1]}
        return {line for line in lines if not need.saved.names & set(re.findall(r"\w+", text[line - 1]))}

    def unread(self, needs: list[Need]) -> bool:
        """Whether for one of these no gradient is another when backward gets the memory as it is."""
        return any(
            same(with_copies(self.script, stale=self.truth.place(need)).kept, self.truth.ending.kept)
            for need in needs
        )

    def freed_by(self, lines: set[int]) -> bool:
        """Whether the script ends in the same way where only the backward on ``lines`` frees its graph."""
        ended, kept = self.truth.ending, with_copies(self.script.keeping_graphs(but=lines))
        return (kept.sentence, kept.lines) == (ended.sentence, ended.lines)

    def disagreements(self) -> Iterator[tuple[str, object]]:
        """Where the oracles differ: torch must refuse where a counter moved, and nowhere else."""
        if self.family == "others" and "another view of its base" in str(self.plain.error):
            return  # torch asks such a view for its history, when it was saved: a copy has none
        ended, refusal = self.truth.ending, self.truth.refusal
        if self.family in ("others", "illegal") and ended.sentence != self.plain.sentence:
            yield "another error with copies", f"{self.plain.error!r}\n{ended.error!r}"
        if self.checkpointed:
            return
        if refusal is None:
            if self.family == "version":
                yield "plain raised, the counters stand still", self.plain.error
        elif self.family != "version":
            raises = (
                self.plain.error is not None and refusal.lane == "right"
            )  # the left thread's is told first
            if not raises and not self.differentiates_changed_values:  # what is saved may depend on a value
                yield "a counter moved, plain did not raise", refusal.saved.lines
        elif not set(self.plain.lines) & set(refusal.lines):
            yield "plain raised elsewhere", f"{self.plain.lines} {refusal.lines}"


def facts(script: Script) -> Facts:
    """Run the script plain and with copies."""
    return Facts(script, run(script), truth(script))
