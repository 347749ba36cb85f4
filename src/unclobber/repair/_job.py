"""The request for one run of the program, and its result: plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..model import Finding
from ._copies import NOWHERE, Copy
from ._probes import WriteStatement

INTERRUPTED = 130  # the exit code of the driver process if Ctrl-C has ended it


class Ended(Enum):
    """The ways in which a run ends."""

    FINISHED = "finished"
    STOPPED = "stopped"  # after enough backward calls, or because its gradients differ from the reference's
    FINDING = "finding"
    ERROR = "error"
    TIMEOUT = "timeout"
    DIED = "died"

    @property
    def well(self) -> bool:
        return self in (Ended.FINISHED, Ended.STOPPED)


@dataclass
class HeldBy:
    """The holders of a statement's written tensor, over all its runs so far."""

    names: set[str] = field(default_factory=set)
    """Names, attributes and items of the statement's own frame: ``h``, ``self.h``, ``outs[i]``."""
    others: tuple[str, ...] = ()  # all other holders, in words; empty if there were none
    callers: set[tuple[str, int, str]] = field(default_factory=set)
    """Names in the calling functions: file, line of the call, and name."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program and its arguments."""

    script: str  # path of the program's file, from the working directory
    arguments: tuple[str, ...] = ()
    module: str = ""  # name of the module that runs, as with `python -m`; empty for a script
    root: str = ""  # folder whose files may be edited; empty for that of the script's project


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The place of a run, and its time limits."""

    folder: str  # the user's working directory
    copy: Copy  # the copy of the program's folder for this run
    answer_to: str  # file for the pickled `Ran`
    timeout: float
    seconds_to_end: float  # time limit for reaching the end, in seconds
    input: int = -1  # descriptor of the command's own standard input; negative if it has none


Slot = tuple[str, int]
"""A number in the lines of one shape, ``epoch # took #``, by its place among the numbers, 0-based."""


@dataclass(frozen=True, slots=True)
class Against:
    """The reference that a run is compared with."""

    file: str  # the reference's recorded values
    nondeterministic: frozenset[str] = frozenset()
    """End-state entries (stdout, files, variables) that differ between runs of the unedited program; the
    comparison skips them."""
    unsteady: frozenset[Slot] = frozenset()
    """Printed numbers that differ between runs of the unedited program; the comparison skips them."""
    never_read_again: frozenset[str] = frozenset()  # global names that are not read again to the end
    detaches: bool = False  # whether the candidate is meant to cut tensors off their graph
    moves: bool = False  # whether the candidate may call backward in another order
    exactly: bool = False
    """Whether floats of Python must be the same bit for bit, as in two runs of the unedited program: the
    clock of a machine that is up for long moves by less than rounding."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run of a program in a process of its own."""

    program: CommandLine
    texts: Mapping[str, str] = field(default_factory=dict)  # real path of a file to the text in its place
    interpretations: frozenset[str] | None = None
    """The interpretations of the program that torch refuses, under ``guard``; None for a run under ``watch``,
    which is always strict."""
    stop_after: int | None = None  # number of recorded backward calls; then the run ends unless ``to_end``
    to_end: bool = False  # whether to go on to the end, and record the end state
    until: int | None = None
    """The backward call that both must have reached; later ones are compared if both reach them. If the end
    does not come in time, the comparison up to this call counts."""
    probes: tuple[WriteStatement, ...] = ()  # statements at which to record the holders of the written tensor
    record_to: str | None = None  # file for the recorded values, so that later runs can be compared with them
    against: Against | None = None
    since: int | None = None
    """The search's start, in ns since the epoch: record what the run reads as an earlier run left it."""
    at: Surroundings = Surroundings("", NOWHERE, "", 120.0, 60.0)  # set by the ``Runner``


@dataclass
class Comparison:
    """The comparison of a run's recorded values with the reference's."""

    why: str | None = None  # the first difference, as a noun phrase; None if they agree
    reached: bool = True  # whether both reached the backward call that must be compared
    compared: int = 0  # number of compared backward calls
    leaves: int = 0
    gradients: int = 0  # leaves that had a gradient in both runs
    largest_difference: float = 0.0


@dataclass(frozen=True, slots=True)
class Different:
    """A difference of a run's end state from the reference's."""

    what: str  # ``stdout``, ``stderr``, ``files``, ``random``, or a variable of the program: ``net.last``
    how: str  # the difference in words
    plain: bool = False  # whether it is a plain value of the state, such as a number or a text
    slots: frozenset[Slot] = frozenset()
    """The numbers in which two printed texts differ, if they differ in nothing else."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one run."""

    ended: Ended
    findings: tuple[Finding, ...] = ()
    backwards: int = 0  # number of started backward calls
    leaves: int = 0  # number of leaves that its recorded backward calls have reached
    failed_at: int = 0
    """The backward call that was running when the first finding was raised, or the next one to come."""
    error: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    loaded: tuple[str, ...] = ()  # the script, and the project's files that modules were loaded from
    comparison: Comparison | None = None
    at_end: tuple[Different, ...] | None = None
    """Differences of its end state from the reference's; None if that was not compared."""
    times: tuple[str, ...] = ()  # the streams and files that were compared without the times in them
    too_long: bool = False  # whether it was ended because the end did not come in time
    lacks_input: bool = False  # whether it read its standard input although the command was given none
    children: bool = False  # whether it started processes with ``multiprocessing``
    held: Mapping[WriteStatement, HeldBy] = field(default_factory=dict)
    reads: tuple[str, ...] | None = ()  # files that it read; None if other processes or hosts may have
    leftovers: Mapping[str, str] = field(default_factory=dict)
    """Files that it read as an earlier run had left them, each with a digest of their content."""

    @property
    def finding(self) -> Finding | None:
        return next((finding for finding in self.findings if not finding.repaired), None)

    @property
    def problem(self) -> str:
        return self.error.partition("\n")[0] or self.ended.value
