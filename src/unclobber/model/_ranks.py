"""The ends of several processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
    outcome: Literal["refused", "silent", "clean", "script-error", "suspected"] | None = None
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
    outcome: Literal["refused", "silent", "clean", "script-error", "suspected"] | None = None
    """None if nothing is known yet."""
    daemon: bool = False
    """Whether the program's end (or a pool's) ends the process, even while it works."""
