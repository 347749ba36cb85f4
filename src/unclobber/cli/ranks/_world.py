"""The rank of this process, from the variables that launchers set."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class World:
    """This process's rank and run on this machine."""

    rank: int
    expected: tuple[int, ...]  # the ranks on this machine; empty if the launcher doesn't say how many
    run: str  # identifier of the run (and restart) on this machine, equal for all its ranks
    elastic: bool  # whether `torchrun` started it, which ends all ranks with the first that fails

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> World | None:
        """Return this process's world. None for a process without a rank, in a world of one, or with
        senseless variables.

        Example:
            >>> World.of({"RANK": "0", "WORLD_SIZE": "1"}) is None
            True
            >>> here = {"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "8"}
            >>> World.of(here).expected
            (4, 5)
        """
        rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
        if rank is None or size is None or size < 2 or rank >= size:
            return None
        local, count = _number(environment, "LOCAL_RANK"), _number(environment, "LOCAL_WORLD_SIZE")
        expected: tuple[int, ...] = ()
        if local is not None and count is not None and local < count and local <= rank:
            expected = tuple(range(rank - local, rank - local + count))
        elif size == (count or 0):
            expected = tuple(range(size))
        parts = [environment.get(name, "") for name in _OF_A_RUN]
        # Hashed, because an address or an id may hold characters that no file name can.
        run = hashlib.sha256("\0".join([*parts, _launcher()]).encode("utf-8", "surrogateescape")).hexdigest()
        return cls(rank, expected, run[:16], "TORCHELASTIC_RUN_ID" in environment)


_OF_A_RUN = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else None


def _launcher() -> str:
    """Return the process id and start time of the ranks' launcher: the nearest ancestor without a rank.

    ``MASTER_PORT`` and the run's id are the same in the next run. A shell or ``numactl`` between the
    launcher and a rank inherits the rank. Without ``/proc`` the parent counts as the launcher.
    """
    process = os.getppid()
    while process > 1 and (parent := _parent_of_a_rank(process)) is not None:
        process = parent
    fields = _stat(process)
    return f"{process} {fields[19] if fields else ''}"


def _parent_of_a_rank(process: int) -> int | None:
    """Return the parent of a process that was started with a ``RANK``; None for any other."""
    try:
        with open(f"/proc/{process}/environ", "rb") as stream:
            has_rank = any(entry.startswith(b"RANK=") for entry in stream.read().split(b"\0"))
    except OSError:
        return None
    fields = _stat(process)
    return int(fields[1]) if has_rank and fields else None


def _stat(process: int) -> list[str]:  # after the name: state, parent, …
    try:
        # The name stands in parentheses and may hold spaces and parentheses itself, so the last one ends it.
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()
    except OSError:
        return []
