"""Whether a program was the same program: the log of a run beside that of the plain one."""

from __future__ import annotations

import math
import re
from typing import Any

from ._run import Log

NUMBERS = ("gradients", "values")
"""What an entry begins with that holds numbers: a repaired overwriting changes them, and nothing else."""
LEFT = "left behind"
DEATH = "dead"
VERSION = "modified by an inplace operation"
VIEWS = (
    "is a view and its base or another view of its base has been modified inplace",
    "This view was created inside a custom Function",
)
"""Torch refuses to look at such a view or to write to it, under guard, too; the twin has no writes."""


NEW_NODE = ("subclass", "torch.Tensor._backward_hooks.__set__")
"""torch does that where a written view gets its new node, as a checkpoint makes it here (docs/limits.md)."""


def refused_overwriting(log: Log) -> bool:
    """Whether the run ended as torch's version check ends it."""
    return VERSION in _last_error(log)


def _last_error(log: Log) -> str:
    """The text of the error that a run ends with, or nothing."""
    last = log[log.index(("ends",)) + 1] if ("ends",) in log else ("",)
    return last[2] if last[0] == "error" else ""


def _refused_view(log: Log) -> bool:
    return any(sentence in _last_error(log) for sentence in VIEWS)


def watched_difference(plain: Log, watched: Log) -> str | None:
    """How a watched run differs: its log is the plain one, and of an overwriting it has torch's sentence."""
    plain, watched = _unmarked(plain), _unmarked(watched)
    return first_difference([_first_sentence(entry, watched) for entry in plain], watched)


def _unmarked(plain: Log) -> Log:
    """The log without new nodes, and the marks that say what hooks were registered for after a write."""
    kept = [entry for entry in plain if entry[:2] != NEW_NODE]
    return [entry[:2] if entry[0] == "raw pack" else entry for entry in kept]


def _first_sentence(entry: tuple[Any, ...], watched: Log) -> tuple[Any, ...]:
    """torch's error with as much of its text as ours has in its first line."""
    if entry[0] != "error" or VERSION not in entry[2]:
        return entry
    for ours in (one[2] for one in watched if one[0] == "error" and VERSION in one[2]):
        if entry[2].startswith(ours) and re.search(r"expected version \d+ instead\.?$", ours):
            return (*entry[:2], ours, *entry[3:])
    return entry


def guarded_difference(plain: Log, guarded: Log, twin: Log, *, silent: bool) -> str | None:
    """How a guarded run differs: it notes what the plain one does, and its gradients are those of the twin.

    Args:
        plain: The log of the plain run.
        guarded: That of the guarded one.
        twin: That of the plain run of the program without writes in place.
        silent: Whether the program writes what torch does not see: plain gradients may be wrong then, as they
            may where it registers hooks for what was overwritten.
    """
    silent = silent or any(len(entry) > 2 for entry in plain if entry[0] == "raw pack")
    plain, guarded = _unmarked(plain), _unmarked(guarded)
    until = plain.index(("ends",)) if ("ends",) in plain else len(plain)
    refused = (n for n, e in enumerate(guarded[:until]) if e[0] == "error" and any(v in e[2] for v in VIEWS))
    if (end := next(refused, None)) is not None:
        # The program catches a refusal and goes on, which the twin, without writes, does not meet.
        one, other = _without_deaths(plain[:end]), _without_deaths(guarded[:end])
        return first_difference(one, other, numbers=not silent)
    caught = next((n for n, e in enumerate(plain[:until]) if e[0] == "error" and VERSION in e[2]), None)
    if caught is not None:
        # The program catches the refusal and goes on; under guard there is none, so it goes on otherwise.
        before = first_difference(
            _without_deaths(plain[:caught]), _without_deaths(guarded[:caught]), numbers=not silent
        )
        ended = _last_error(guarded) == _last_error(plain) != ""
        return before or events_difference(twin, guarded) or gradients_difference(twin, guarded, ended=ended)
    # Torch reads the history of a tensor that a node keeps, and may refuse that of a written view.
    repaired = _refused_view(plain) and ("ends",) not in guarded[: until + 1]
    if not (refused_overwriting(plain) or repaired):
        found = first_difference(plain, guarded, numbers=not silent)
        ended = ("ends",) in plain
        return found or (gradients_difference(twin, guarded, ended=ended) if silent else None)
    # The deaths in the part that is compared are no whole list of them.
    plain, guarded = _without_deaths(plain), _without_deaths(guarded)
    until = plain.index(("ends",))
    found = first_difference(plain[:until], guarded[:until], numbers=not silent)
    return found or events_difference(twin, guarded) or gradients_difference(twin, guarded)


def first_difference(one: Log, other: Log, *, numbers: bool = True) -> str | None:
    """The first entry in which two logs differ; None if they are equal."""
    if one and one[-1] != (LEFT, []):  # a graph of torch's that refers to itself is never freed
        one, other = ([e for e in _without_deaths(log) if e[0] != LEFT] for log in (one, other))
    if not numbers:
        one, other = ([e for e in log if e[0] not in NUMBERS] for log in (one, other))
        one, other = _as_repaired(one, other), other
    for nth, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours and not (mine[0] == yours[0] and mine[0] in NUMBERS and repr(mine) == repr(yours)):
            return f"entry {nth}: plain {_shown(mine, yours)}"
    if len(one) == len(other):
        return None
    longer, whose = (one, "plain") if len(one) > len(other) else (other, "ours")
    return f"entry {min(len(one), len(other))}: only {whose} {longer[min(len(one), len(other))]}"


def _without_deaths(log: Log) -> Log:
    return [entry for entry in log if entry[0] != DEATH]


OF_ITS_OWN = (r"\bis=[^,]*", r"\bclass=[^,]*", r"\bbase=[^,]*", r"\bversion[^,]*", r"\bmemory of=\[.*?\]")
"""What a repaired value need not have of the plain one."""


def _as_repaired(plain: Log, guarded: Log) -> Log:
    """The plain log, with the repaired value where a Function's backward or a hook was given one by guard.

    It is a tensor of its own without subclass and base, and has memory and a version of its own, because the
    program's memory holds what was written; all else is as plain. A value with any of the program's memory
    is none.
    """
    expected = []
    for mine, yours in zip(plain, guarded, strict=False):
        fields = list(mine)
        for n, (field, theirs) in enumerate(zip(mine, yours, strict=False)):
            repaired = isinstance(theirs, str) and theirs.startswith("is=?") and "memory of=[]" in theirs
            if mine[0] in ("saved", "pack", "raw pack", "unpack") and isinstance(field, str) and repaired:
                for own in OF_ITS_OWN:
                    of_theirs = re.search(own, theirs)
                    fields[n] = fields[n] if of_theirs is None else re.sub(own, of_theirs[0], fields[n])
        expected.append(tuple(fields))
    return expected + plain[len(expected) :]


def _shown(mine: tuple[Any, ...], yours: tuple[Any, ...]) -> str:
    return f"{mine}\n    ours {yours}"


EVENTS = {"hook": 2, "accumulated": 2, "before node": 2, "behind node": 2, "all": 1, "any": 1, "gradient": 1,
          "backward pre": 1, "backward": 1, "part runs": 1, "Function's backward": 1, "raw pack": 1,
          "raw unpack": 1, "error": 3, "ends": 1}  # fmt: skip
"""By the first word of an entry, how much of it must be that of the twin: the event and whose it is.

The rest tells of memory and versions, which the twin does not share, or is a number.
"""


def events_difference(twin: Log, guarded: Log) -> str | None:
    """How the order of backward's events differs from the twin's, where the plain program is refused."""
    one, other = ([e[: EVENTS[e[0]]] for e in log if e[0] in EVENTS] for log in (twin, guarded))
    if _refused_view(guarded):
        other = other[: other.index(("ends",))]
        one = one[: len(other)]
    found = first_difference(one, other)
    return None if found is None else f"beside the program without writes in place, {found}"


def gradients_difference(twin: Log, guarded: Log, *, ended: bool = False) -> str | None:
    """How the gradients differ from those of the twin, but for rounding.

    Args:
        twin: The log of the program without writes in place.
        guarded: That of the guarded program.
        ended: Whether the guarded program ends early, as it does plain. What torch refuses at the write
            itself (a view of a custom Function) does not end the twin.
    """
    right, found = ([e for e in log if e[0] == "gradients"] for log in (twin, guarded))
    if ended or _refused_view(guarded):
        right = right[: len(found)]
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
    # Powers of powers overflow in both: NaN is then the gradient of both.
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))


def _is_zero(numbers: Any) -> bool:
    return all(map(_is_zero, numbers)) if isinstance(numbers, (list, tuple)) else numbers == 0
