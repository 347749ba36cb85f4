"""A change that could lower the peak, with everything that a run with it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from .. import _places
from .._facts import Change, Edits, Sort
from .._names import Named
from .._timeline import Span
from .._trace import Item, Operation, PackedSave, Site, SiteCall, Storage, modules_of

if TYPE_CHECKING:
    from ._formulas import Formula

LEAST = 0.01  # share of the step's peak; changes that save less are not reported


SavesAt = tuple[tuple[object, ...], tuple[int, ...]]  # line and shape of saves


@dataclass(frozen=True)
class Release:
    """A tensor whose name gives it up in a run."""

    made: SiteCall
    after: SiteCall  # the last call that reads it
    graph: bool  # whether only its graph is given up, and the value stays


@dataclass(eq=False)
class Option:
    """A change with everything that a run with it needs; equal to no other."""

    change: Change
    spans: tuple[Span, ...]  # bytes that would not be alive, with their ticks
    formulas: tuple[Formula, ...] = ()
    rows: tuple[tuple[Named, ...], ...] = ()  # modules that are computed again, each row as one
    in_place: tuple[tuple[object, ...], ...] = ()
    again: tuple[Site, ...] = ()  # calls whose results are computed again from their arguments, not kept
    same: tuple[Site, ...] = ()  # calls whose equal results are kept once
    dropped: tuple[SavesAt, ...] = ()  # saves that are not kept
    narrow: tuple[Site, ...] = ()  # calls that get no wider floats than their differentiable operand's
    releases: tuple[Release, ...] = ()
    without_cache: bool = False

    @property
    def runs(self) -> bool:  # a run can try what changes calls, modules or saves
        calls = (self.formulas, self.in_place, self.again, self.same, self.narrow, self.releases)
        return any((*calls, self.rows, self.dropped, self.without_cache))

    def excludes(self, other: Option) -> bool:  # a module's checkpoint is inside of the other's
        mine, theirs = ([module for row in option.rows for module in row] for option in (self, other))
        return any(
            a[0] == b[0] and (a[1] == b[1] or a[1].startswith(f"{b[1]}.") or b[1].startswith(f"{a[1]}."))
            for a in mine
            for b in theirs
        )


def change_of(
    members: Sequence[Storage | Operation | PackedSave],
    sort: Sort,
    title: str,
    write: str,
    edits: Edits = (),
    *,
    in_modules: bool = True,
    why_untried: str | None = None,
) -> Change:
    """Return the change for what ``members`` keep; its place is the first one's."""
    place, modules = _places.place(members[0].stack), modules_of(members) if in_modules else ()
    return Change(sort, title, write, place, modules, len(members), why_untried=why_untried, edits=edits)


def saved_for_work(option: Option) -> tuple[float, float]:
    """Return the predicted bytes off the peak, and the part of forward that is computed twice for them."""
    return option.change.predicted, option.change.recomputed


def front(items: Iterable[Item], worth: Callable[[Item], tuple[float, float]], most: int) -> list[Item]:
    """Return the items that no other beats in both gain and cost, largest gain first.

    Args:
        most: Items to return at most. Of two neighbours that gain nearly as much, the second goes; the
            first and the last stay, because they are the ends of the choice.
    """
    best: list[Item] = []
    for item in sorted(items, key=lambda item: (-worth(item)[0], worth(item)[1])):
        if not best or worth(item)[1] < worth(best[-1])[1]:
            best.append(item)
    while len(best) > most:
        gaps = [worth(a)[0] - worth(b)[0] for a, b in pairwise(best)]
        del best[1 + min(range(len(gaps) - 1), key=gaps.__getitem__)]
    return best
