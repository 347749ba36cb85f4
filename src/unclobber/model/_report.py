"""The outcome of one watched run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._finding import Finding
from ._ranks import RankEnd

Outcome = Literal["refused", "silent", "clean", "script-error"]


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
    """Findings with the totals they came from."""

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    totals: Totals = Totals()
    torch_version: str = ""
    command: tuple[str, ...] = ()
    exit_code: int = 0
    notices: tuple[str, ...] = ()
    """True sentences about the run as a whole, such as what could not be seen; no full stop."""
    ranks: tuple[RankEnd, ...] = ()
    """How each rank of a distributed run ended; empty for one process."""
