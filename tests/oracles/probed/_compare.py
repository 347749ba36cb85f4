"""Whether a program was the same program: the log of a run beside that of the plain one."""

from __future__ import annotations

import math
import re
from typing import Any

from ._run import Log

NUMBERS = ("gradients", "values")
"""What an entry begins with that holds numbers: a repaired overwriting changes them, and nothing else."""
LEFT = "left behind"
VERSION = "modified by an inplace operation"


def refused_overwriting(log: Log) -> bool:
    """Whether the run ended as torch's version check ends it."""
    return ("ends",) in log and any(entry[0] == "error" and VERSION in entry[2] for entry in log)


def watched_difference(plain: Log, watched: Log) -> str | None:
    """How a watched run differs: its log is the plain one, and of an overwriting it has torch's sentence."""
    if refused_overwriting(plain):
        shortened = [_first_sentence(entry, watched) for entry in plain]
        return first_difference(shortened, watched)
    return first_difference(plain, watched)


def _first_sentence(entry: tuple[Any, ...], watched: Log) -> tuple[Any, ...]:
    """torch's error with as much of its text as ours has in its first line."""
    if entry[0] != "error" or VERSION not in entry[2]:
        return entry
    ours = next((one[2] for one in watched if one[0] == "error" and VERSION in one[2]), None)
    if (
        ours is not None
        and entry[2].startswith(ours)
        and re.search(r"expected version \d+ instead\.?$", ours)
    ):
        return (*entry[:2], ours, *entry[3:])
    return entry


def guarded_difference(plain: Log, guarded: Log, twin: Log, *, silent: bool) -> str | None:
    """How a guarded run differs: it notes what the plain one does, and its gradients are those of the twin.

    Args:
        plain: The log of the plain run.
        guarded: That of the guarded one.
        twin: That of the plain run of the program without writes in place.
        silent: Whether the program writes what torch does not see: plain gradients may be wrong then.
    """
    if not refused_overwriting(plain):
        found = first_difference(plain, guarded, numbers=not silent)
        return found or (gradients_difference(twin, guarded) if silent else None)
    until = plain.index(("ends",))
    found = first_difference(plain[:until], guarded[:until], numbers=not silent)
    return found or gradients_difference(twin, guarded)


def first_difference(one: Log, other: Log, *, numbers: bool = True) -> str | None:
    """The first entry in which two logs differ; None if they are equal."""
    if one and one[-1] != (LEFT, []):  # a graph of torch's that refers to itself is never freed
        one, other = ([e for e in log if e[0] != LEFT] for log in (one, other))
    if not numbers:
        one, other = ([_elsewhere(e) for e in log if e[0] not in NUMBERS] for log in (one, other))
    for nth, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours and not (mine[0] == yours[0] and mine[0] in NUMBERS and repr(mine) == repr(yours)):
            return f"entry {nth}: plain {_shown(mine, yours)}"
    if len(one) == len(other):
        return None
    longer, whose = (one, "plain") if len(one) > len(other) else (other, "ours")
    return f"entry {min(len(one), len(other))}: only {whose} {longer[min(len(one), len(other))]}"


def _elsewhere(entry: tuple[Any, ...]) -> tuple[Any, ...]:
    """An entry without what lies in the memory that a Function's backward was given: a repaired value lies in
    memory of its own, as what was written lies in the program's."""
    return (entry[0], re.sub(r"memory of=.*?\]", "memory of", entry[1])) if entry[0] == "saved" else entry


def _shown(mine: tuple[Any, ...], yours: tuple[Any, ...]) -> str:
    return f"{mine}\n    ours {yours}"


def gradients_difference(twin: Log, guarded: Log) -> str | None:
    """How the gradients differ from those of the twin, but for rounding."""
    right, found = ([e for e in log if e[0] == "gradients"] for log in (twin, guarded))
    if len(right) != len(found):
        return f"{len(found)} passes with gradients, {len(right)} in the program without writes in place"
    for mine, yours in zip(right, found, strict=True):
        if not _close(mine[1:], yours[1:]):
            return f"gradients {yours[1:]}\n    of the program without writes in place {mine[1:]}"
    return None


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(_close, one, other))
    if one is None or other is None:
        present = other if one is None else one
        return present is None or _is_zero(present)
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _is_zero(numbers: Any) -> bool:
    return all(map(_is_zero, numbers)) if isinstance(numbers, (list, tuple)) else numbers == 0
