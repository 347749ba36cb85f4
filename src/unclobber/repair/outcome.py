"""How an attempt at a repair ends: a few named outcomes, all picklable. The runner never raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Finding


@dataclass(frozen=True, slots=True)
class Proof:
    """What running a candidate beside the reference has shown."""

    reading: str
    """What the reference takes the program to mean, as a phrase: ``as written``."""
    backward: int
    """The backward call, from 1, at which gradients were compared last."""
    leaves: int
    """Leaves whose gradients were compared there."""
    largest_difference: float = 0.0
    """Largest difference relative to the largest gradient element of its tensor; 0 if bit-equal."""
    seconds: float = 0.0
    """Wall time of the candidate's run minus that of the reference."""
    cpu_seconds: float = 0.0
    """The same of processor time, all threads: what else the machine does is not in it."""
    extra_bytes: int = 0
    """Peak memory of the candidate's process minus that of the reference's."""
    to_end: bool = True
    """Whether both ran to their ends and left the same: output, files, state, random generators."""
    why_not_to_end: str = ""
    """A clause that says why not."""

    @property
    def verified(self) -> str:
        """As reports say it: ``whole-run``, or ``backward-3``."""
        return "whole-run" if self.to_end else f"backward-{self.backward}"

    @property
    def exact(self) -> bool:
        return self.largest_difference == 0.0


@dataclass(frozen=True, slots=True)
class Repair:
    """Edits that belong together, with their proof where there is one."""

    titles: tuple[str, ...]
    """One phrase for each edit, in the order in which they were found."""
    cures: tuple[str, ...]
    texts: Mapping[str, str]
    """Absolute path to the whole new text."""
    changed_lines: int
    proof: Proof | None = None
    notes: tuple[str, ...] = ()
    """What the user must know: what the cure changes, or which reading was taken."""
    hides: bool = False
    """Whether somebody may no longer see a write, which no comparison of gradients need show."""
    drops: bool = False
    """Whether it takes a write out of the graph that looks like a part of the computation."""
    applicable: bool = True
    """False for a cure that changes what is computed: it is shown, never written."""


@dataclass(frozen=True, slots=True)
class Proved:
    """At least one candidate runs clean with the right gradients; the best one first."""

    finding: Finding
    repairs: tuple[Repair, ...]
    offered: tuple[Repair, ...] = ()
    tried: int = 0
    """Candidates that were run."""

    @property
    def best(self) -> Repair:
        return self.repairs[0]


@dataclass(frozen=True, slots=True)
class Unproved:
    """There is a finding, and no candidate could be proved."""

    finding: Finding
    reason: str
    """One sentence without a trailing full stop."""
    offered: tuple[Repair, ...] = ()
    tried: int = 0


@dataclass(frozen=True, slots=True)
class Clean:
    """The program runs without a finding."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The program failed for reasons of its own, or could not be run to a finding."""

    reason: str
    details: str = field(default="", compare=False)


Outcome = Proved | Unproved | Clean | Failed
