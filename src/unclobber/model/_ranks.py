"""How each of several processes ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RankEnd:
    """One rank of a distributed run, at the moment of the report."""

    rank: int
    state: Literal["ended", "failed", "terminated", "running", "died", "absent"]
    """``failed``: for reasons of its own. ``terminated``: by SIGTERM, wherever it was. ``died``: its
    process is gone and has left no report; what it had found until then is kept. ``absent``: it has left
    nothing at all, because it was not watched or had not begun."""
    exit_code: int | None = None
    """None where it has not ended."""
    outcome: Literal["refused", "silent", "clean", "script-error", "suspected"] | None = None
    """None where nothing is known yet."""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """One watched process that the program started with ``multiprocessing``, at the moment of the report."""

    name: str
    """As ``multiprocessing`` names it, such as ``SpawnProcess-1``."""
    pid: int
    state: Literal["ended", "failed", "running", "died"]
    """As of a rank."""
    exit_code: int | None = None
    """None where it has not ended by itself."""
    outcome: Literal["refused", "silent", "clean", "script-error", "suspected"] | None = None
    """None where nothing is known yet."""
    daemon: bool = False
    """Whether the program's end (or a pool's) ends it, whatever it is doing."""
