"""What is asked of one run of the program, and what comes back: plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Finding


@dataclass(frozen=True, slots=True)
class Job:
    """One run of the script in a process of its own."""

    script: str
    arguments: tuple[str, ...] = ()
    overlay: Mapping[str, str] = field(default_factory=dict)
    """Real path of a file to the text that is to be run in its place."""
    policy: str = "watch"
    """``watch`` (always strict) for candidates, ``guard`` for references."""
    readings: tuple[str, ...] = ()
    """For references: what the program is taken to mean where torch refuses it."""
    stop_after: int | None = None
    """End the run after so many backward calls."""
    record_to: str | None = None
    """File for the recorded values, so that later runs can be compared with them."""
    compare_with: str | None = None
    compare_until: int | None = None
    """The backward call that both must have reached; later ones are compared where both reach them."""
    since: int | None = None
    """When the search began, in nanoseconds: note which files the run reads as an earlier one left them."""
    answer_to: str = ""
    """File for the pickled ``Ran``."""
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run's recorded values beside the reference's."""

    same: bool
    why_not: str = ""
    compared: int = 0
    """Backward calls that were compared."""
    leaves: int = 0
    gradients: int = 0
    """Leaves that had a gradient on both sides."""
    largest_difference: float = 0.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How one run went."""

    ending: str
    """``finished``, ``stopped`` after enough backward calls, ``finding``, ``error``, ``timeout`` or
    ``died``."""
    findings: tuple[Finding, ...] = ()
    backwards: int = 0
    """Backward calls that were begun."""
    failed_at: int | None = None
    """The backward call that was running when the first finding was raised, or the next one to come."""
    error: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    loaded: tuple[str, ...] = ()
    """Files that the program has loaded modules from, and the script."""
    comparison: Comparison | None = None
    leftovers: Mapping[str, str] = field(default_factory=dict)
    """Files that it read as an earlier run had left them, each with a digest of what they held."""

    @property
    def finding(self) -> Finding | None:
        """The first finding that stands."""
        return next((finding for finding in self.findings if not finding.repaired), None)
