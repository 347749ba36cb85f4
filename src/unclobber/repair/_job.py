"""What is asked of one run of the program, and what comes back: plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Finding
from ._copies import NOWHERE, Copy
from ._probes import Spot

INTERRUPTED = 130
"""The exit code of the process that runs the jobs, when Ctrl-C has ended it."""


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Who held what a statement wrote, over all its runs."""

    times: int
    names: tuple[str, ...] = ()
    """Places of the statement's own frame: ``h``, ``self.h``, ``outs[i]``."""
    others: tuple[str, ...] = ()
    """Anybody else, in words; empty where there was nobody."""


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
    """Record so many backward calls, and end the run after them unless it goes on to its end."""
    to_end: bool = False
    """Go on to the end, and look at what the run leaves behind."""
    seconds_to_end: float = 60.0
    """Wall time within which that is tried."""
    copy: Copy = NOWHERE
    """Where the program's folder lies for this run."""
    folder: str = ""
    """The user's working directory."""
    probes: tuple[Spot, ...] = ()
    """Statements at which to look who holds what they write."""
    record_to: str | None = None
    """File for the recorded values, so that later runs can be compared with them."""
    compare_with: str | None = None
    compare_until: int | None = None
    """The backward call that both must have reached; later ones are compared where both reach them. What is
    known by then counts should the end not come in time."""
    unsteady: frozenset[str] = frozenset()
    """Of what a run leaves behind, what differs from run to run of the program as it is."""
    unread: frozenset[str] = frozenset()
    """Global names that nobody reads any more when the program ends."""
    detaches: bool = False
    """Whether the candidate is meant to cut tensors off their graph."""
    joins: bool = False
    """Whether one backward call of the candidate may stand for two of the reference."""
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
class Different:
    """One thing that a run leaves otherwise than the reference."""

    what: str
    """``stdout``, ``stderr``, ``files``, ``random``, or a place in the program's state: ``net.last``."""
    how: str
    """In words."""
    plain: bool = False
    """Whether it is a plain value of the state, such as a number or a text."""


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
    """Files of the project that the program has loaded modules from, and the script."""
    comparison: Comparison | None = None
    at_end: tuple[Different, ...] | None = None
    """How what it left behind differs from the reference's; None where that was not compared."""
    too_long: bool = False
    """Whether it was ended because the end did not come in time."""
    asked: bool = False
    """Whether it asked for input."""
    held: Mapping[Spot, HeldBy] = field(default_factory=dict)
    leftovers: Mapping[str, str] = field(default_factory=dict)
    """Files that it read as an earlier run had left them, each with a digest of what they held."""

    @property
    def finding(self) -> Finding | None:
        """The first finding that stands."""
        return next((finding for finding in self.findings if not finding.repaired), None)
