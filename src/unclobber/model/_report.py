"""The outcome of one watched run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ._cells import shown_name
from ._finding import Finding
from .text import plural, size

Outcome = Literal["refused", "silent", "clean", "script-error", "suspected"]
"""``suspected``: nothing was run, and the sources have findings."""

SuppressedBy = Literal["comment", "settings", "baseline"]
"""``comment``: ``# unclobber: ignore`` on the line of the write; ``settings``: ``select``, ``ignore`` or
``per-file-ignores``, of pyproject.toml or the command line; ``baseline``: a file of known findings."""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that is counted, but not reported, and that fails no run."""

    finding: Finding
    by: SuppressedBy


@dataclass(frozen=True, slots=True)
class RankEnd:
    """The state of one rank of a distributed run, at the moment of the report."""

    rank: int
    state: Literal["ended", "failed", "terminated", "running", "died", "absent"]
    """``failed``: for reasons of its own. ``terminated``: by SIGTERM, at any line. ``died``: its process is
    gone without a report, but its findings until then are kept. ``absent``: it has left no record, because it
    was not watched or had not started."""
    exit_code: int | None = None
    """None if it has not ended."""
    outcome: Outcome | None = None
    """None if nothing is known yet."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The state of one watched process that the program started with ``multiprocessing``, at the moment of
    the report."""

    name: str
    """The name that ``multiprocessing`` gives it, such as ``SpawnProcess-1``."""
    pid: int
    state: Literal["ended", "failed", "running", "died"]
    """As in ``RankEnd``."""
    exit_code: int | None = None
    """None if it has not ended by itself."""
    outcome: Outcome | None = None
    """None if nothing is known yet."""
    daemon: bool = False
    """Whether the program's end (or a pool's) ends the process, even while it works."""


@dataclass(frozen=True, slots=True)
class CheckedSources:
    """The extent of sources that were checked without running them."""

    files: int
    lines: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of the ledger."""

    saves: int = 0
    writes: int = 0
    """Writes to memory that live saved tensors share."""
    conflicts: int = 0
    kept_bytes: int = 0
    """Bytes of overwritten values that were kept."""


_FEW = 4
"""Findings, and lines that keep something, in a report's repr."""


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Findings with the totals of their run.

    Example:
        >>> def step():
        ...     w = torch.ones(3, requires_grad=True)
        ...     w.exp().sum().backward()
        >>> report = unclobber.audit(step)
        >>> report.outcome, report.findings, report.saves, list(report.bytes_by_line.values())
        ('clean', (), 1, [12])
    """

    outcome: Outcome
    """``refused``: torch refuses an operation; ``silent``: a gradient is wrong and torch raises nothing;
    ``script-error``: the program failed for reasons of its own; ``suspected``: nothing was run; ``clean``."""
    findings: tuple[Finding, ...] = ()
    """Oldest first; equal places only once."""
    totals: Totals = Totals()
    torch_version: str = ""
    """``torch.__version__``; empty if nothing was run."""
    command: tuple[str, ...] = ()
    """The script's words, or ``-m`` and a module's; empty for a function."""
    exit_code: int = 0
    """The command's exit code: 0 clean, 1 findings, else the program's own."""
    notices: tuple[str, ...] = ()
    """True sentences about the run as a whole, such as code that could not be observed; no full stop."""
    ranks: tuple[RankEnd, ...] = ()
    """The end of each rank of a distributed run; empty for one process."""
    processes: tuple[ProcessEnd, ...] = ()
    """The end of each watched process that the program started; its own is not among them."""
    bytes_by_line: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """``audit`` only: the bytes that each line ``(path, line)`` keeps for backward at the moment when most
    are kept, largest first. Each storage counts once, parameters don't count."""
    suppressed: tuple[Suppressed, ...] = ()
    """Findings that a comment, the settings or a baseline keep out of ``findings``."""
    checked: CheckedSources | None = None
    """The checked sources; None for a run."""

    def __repr__(self) -> str:
        """Return a table of at most ten lines: counts, the first findings, the lines that keep most."""
        counted = ((len(self.findings), "finding"), (self.saves, "save"), (self.writes, "write"))
        counts = ", ".join(plural(count, noun) for count, noun in counted)
        rows = [f"Report: {self.outcome}, {counts} to saved memory"]
        for finding in self.findings[:_FEW]:
            site = next(iter(finding.blamed), None)
            place = f"{shown_name(site.path)}:{site.line}  " if site is not None else ""
            rows.append(f"  {finding.code}  {place}{finding.message}")
        if more := self.findings[_FEW:]:
            rows.append(f"  and {plural(len(more), 'more finding')}")
        for (path, line), count in list(self.bytes_by_line.items())[:_FEW]:
            rows.append(f"  {size(count):>10}  kept for backward by {shown_name(path)}:{line}")
        return "\n".join(rows)

    def judged(self, *, failed: bool) -> Report:
        """Return the report with the worst outcome of its findings that were not repaired.

        Args:
            failed: Whether the program failed for reasons of its own.
        """
        unrepaired = [finding for finding in self.findings if not finding.repaired]
        outcome: Outcome = "script-error" if failed else "clean"
        if unrepaired:
            refused = any(finding.torch_message for finding in unrepaired)
            outcome = "refused" if refused else "silent"
        return replace(self, outcome=outcome)

    @property
    def saves(self) -> int:
        """Number of tensors that autograd saved."""
        return self.totals.saves

    @property
    def writes(self) -> int:
        """Number of writes to memory that live saved tensors share."""
        return self.totals.writes
