"""The outcome of one watched run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ._finding import Finding
from ._ranks import ProcessEnd, RankEnd
from ._suppressed import Suppressed

Outcome = Literal["refused", "silent", "clean", "script-error", "suspected"]
"""``suspected``: nothing was run, and something was found in the sources."""


@dataclass(frozen=True, slots=True)
class CheckedSources:
    """What was looked at without running it."""

    files: int
    lines: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What the ledger counted."""

    saves: int = 0
    writes: int = 0
    """Writes to memory that live saved tensors share."""
    conflicts: int = 0
    kept_bytes: int = 0
    """Bytes of overwritten values that were kept."""


@dataclass(frozen=True, slots=True)
class Report:
    """Findings with the totals they came from.

    Example:
        >>> def step():
        ...     w = torch.ones(3, requires_grad=True)
        ...     w.exp().sum().backward()
        >>> report = unclobber.audit(step)
        >>> report.outcome, report.findings, report.saves, list(report.bytes_by_line.values())
        ('clean', (), 1, [12])
    """

    outcome: Outcome
    """``refused``: torch refuses something; ``silent``: a gradient is wrong and torch says nothing;
    ``script-error``: the program failed for reasons of its own; ``suspected``: nothing was run; ``clean``."""
    findings: tuple[Finding, ...] = ()
    """Oldest first; of the same three places once."""
    totals: Totals = Totals()
    torch_version: str = ""
    """``torch.__version__``; empty where nothing was run."""
    command: tuple[str, ...] = ()
    """What was run: the script's words, or ``-m`` and a module's; empty for a function."""
    exit_code: int = 0
    """The command's: 0 clean, 1 findings, else the program's own."""
    notices: tuple[str, ...] = ()
    """True sentences about the run as a whole, such as what could not be seen; no full stop."""
    ranks: tuple[RankEnd, ...] = ()
    """How each rank of a distributed run ended; empty for one process."""
    processes: tuple[ProcessEnd, ...] = ()
    """How each process that the program started and that was watched ended; its own is not among them."""
    bytes_by_line: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Of ``audit``: bytes that each line ``(path, line)`` keeps for backward at the moment when most
    are kept, largest first; each storage once, parameters not counted."""
    suppressed: tuple[Suppressed, ...] = ()
    """Findings that a comment, the settings or a baseline keep out of ``findings``."""
    checked: CheckedSources | None = None
    """Of sources that were looked at; None for a run."""

    @property
    def saves(self) -> int:
        """How many tensors autograd saved."""
        return self.totals.saves

    @property
    def writes(self) -> int:
        """How many writes went to memory that live saved tensors share."""
        return self.totals.writes
