"""Live bytes of every kind at every tick, from the lives of storages and saves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ._trace import Trace

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

    for storage in trace.storages:
        until = trace.end(storage)
        if storage.kind in LASTING:
            add("lasting", storage.born, until, storage.bytes)
        elif storage.kind == "gradient":
            add("gradients", storage.born, until, storage.bytes)
        elif storage.kind == "temporary":
            add("temporaries", storage.born, until, storage.bytes)
        else:
            add("other", storage.born, until, storage.bytes)
            for since, end in trace.kept_spans.get(storage.number, ()):
                # Moved from "other" to "kept" and not added, because each byte counts once.
                add("other", since, min(end, until), -storage.bytes)
                add("kept", since, min(end, until), storage.bytes)
    # One element more than ticks, for spans that end at the last tick.
    return BytesOverTime(first, **{sort: list(accumulate(changes))[:-1] for sort, changes in steps.items()})
