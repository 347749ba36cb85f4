"""Live bytes of every kind at every tick, from the lives of storages and saves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ._trace import PackedSave, Trace

LASTING = ("parameter", "buffer", "input")


@dataclass(frozen=True)
class BytesOverTime:
    """Live bytes by tick, from ``first`` on."""

    first: int
    kept: list[int]
    other: list[int]
    gradients: list[int]
    temporaries: list[int]
    lasting: list[int]

    @property
    def totals(self) -> list[int]:
        columns = zip(self.kept, self.other, self.gradients, self.temporaries, self.lasting, strict=True)
        return [sum(column) for column in columns]

    @property
    def activations(self) -> list[int]:
        """Live bytes that forward made, by tick, both kept and other."""
        return [a + b for a, b in zip(self.kept, self.other, strict=True)]

    def peak(self) -> int:
        """Return the first tick with the most bytes."""
        totals = self.totals
        return self.first + max(range(len(totals)), key=lambda i: (totals[i], -i))


def timeline(trace: Trace) -> BytesOverTime:
    """Add up the recorded step, tick by tick.

    A storage lives from the operation that made it to the one during which it was freed; memory that
    a kernel takes and gives back inside one operation isn't seen.
    """
    first, last = trace.start, trace.tick
    steps: dict[str, list[int]] = {
        sort: [0] * (last - first + 2) for sort in ("kept", "other", "gradients", "temporaries", "lasting")
    }

    def add(sort: str, since: int, until: int, size: int) -> None:
        since, until = max(since, first), min(until, last)
        if since <= until:
            steps[sort][since - first] += size
            steps[sort][until - first + 1] -= size

    held = kept_spans(trace)
    for storage in trace.storages:
        until = last if storage.died is None else storage.died
        if storage.kind in LASTING:
            add("lasting", storage.born, until, storage.bytes)
        elif storage.kind == "gradient":
            add("gradients", storage.born, until, storage.bytes)
        elif storage.kind == "temporary":
            add("temporaries", storage.born, until, storage.bytes)
        else:
            add("other", storage.born, until, storage.bytes)
            for since, end in held.get(storage.number, ()):
                # Moved from "other" to "kept" and not added, because each byte counts once.
                add("other", since, min(end, until), -storage.bytes)
                add("kept", since, min(end, until), storage.bytes)
    # One element more than ticks, for spans that end at the last tick.
    return BytesOverTime(first, **{sort: list(accumulate(changes))[:-1] for sort, changes in steps.items()})


def kept_spans(trace: Trace) -> dict[int, list[tuple[int, int]]]:
    """Return, for each storage, the spans of ticks in which at least one save held it."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for number, saves in saves_by_storage(trace).items():
        joined: list[tuple[int, int]] = []
        for since, until in sorted(
            (max(save.tick, trace.storages[number].born), end_of(save, trace)) for save in saves
        ):
            if joined and since <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], until))
            else:
                joined.append((since, until))
        spans[number] = joined
    return spans


def saves_by_storage(trace: Trace) -> dict[int, list[PackedSave]]:
    """Return the saves of each storage, in the order in which they were packed."""
    by_storage: dict[int, list[PackedSave]] = {}
    for save in trace.saves:
        by_storage.setdefault(save.storage, []).append(save)
    return by_storage


def end_of(save: PackedSave, trace: Trace) -> int:
    """Return the last tick at which a save was alive."""
    return trace.tick if save.released is None else save.released
