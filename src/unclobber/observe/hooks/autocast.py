"""Copies of weights that autocast keeps while a region is open, and writes to these weights meanwhile.

Inside of the outermost ``torch.autocast`` region torch casts each float32 leaf that requires grad once, and
all operations of the region read that copy (``cached_cast`` in aten/src/ATen/autocast_mode.cpp). A leaf that
is written in the region is read from its old copy until the region ends: torch reports nothing, and values
and gradients are those of the old weights.

The cache can't be read. But each copy is made by one node above the leaf's ``AccumulateGrad``, every reader
of the copy has an edge to it, and nodes are numbered in order: a copy that is older than the write was given
to each reader that is newer. So writes are noted while a region is open, and a backward looks for such
readers if there is a note. A session that repairs empties the cache at a write to what a leaf may have.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ...source import Stack, of_program
from ...torch_internals import compat
from ...torch_internals.engine import EngineCall, engine
from ...torch_internals.patches import Patches
from ..record import SavedTensor
from . import kernels, saves
from .conflicts import Conflicts
from .kernels import Listener

_MOST_REGIONS = 16
"""Regions of a thread whose writes are kept: a loss may be computed in one and reach backward in a later."""
_MOST_OF_A_LEAF = 8
_FARTHEST = 3
"""Edges from a reader to the operation whose save has the line: `linear` reads a transposed copy."""


@dataclass(eq=False)
class _AutocastRegion:
    """An outermost region of one thread."""

    start: int  # number of the first backward node that is made in it
    end: int | None = None  # number of the first node after it; None while it is open
    copied: dict[int, int] = field(default_factory=dict)
    """Number of the oldest copy that a backward has seen, by the leaf's storage key."""

    def __contains__(self, number: int) -> bool:  # the backward node of this number was made in the region
        return self.start <= number and (self.end is None or number < self.end)


@dataclass(frozen=True, slots=True, eq=False)
class _LeafWrite:
    region: _AutocastRegion
    number: int  # number of the first backward node that is made after it
    operation: str
    stack: Stack
    emptied: bool  # whether the cache was emptied, so that the next reader gets a new copy


class _ThreadRegions(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.regions: deque[_AutocastRegion] = deque(maxlen=_MOST_REGIONS)
        self.writes: dict[int, list[_LeafWrite]] = {}
        """Writes to leaves in these regions, by storage key, oldest first."""


class CopiedWeights(Listener):
    """Listener to the writes in all open regions; it looks at a backward if there was one."""

    def __init__(self) -> None:
        self.pending: list[int] = []
        """An item for each open region of any thread: without one, the kernels pass this listener by."""
        self._thread = _ThreadRegions()
        self._used = False  # whether one that casts was entered: before, no backward need be looked at

    def forget(self) -> None:  # their ends will not be seen
        self.pending.clear()
        self._thread = _ThreadRegions()
        self._used = False

    def follow_backwards(self) -> Callable[[], None]:
        """Be notified of backward calls once a region that casts was entered. Return what ends it."""
        if self._used:
            engine.subscribe(self, last=True)
        return partial(engine.unsubscribe, self)

    def enter(self, region: torch.autocast) -> None:
        """Note that a region begins."""
        if not self._used and compat.entries.enables_autocast(region):
            self._used = True
            self.follow_backwards()
        thread = self._thread
        if not thread.depth:
            thread.regions.append(_AutocastRegion(compat.graph.next_sequence_number()))
            # What is older than the oldest region goes, or a long training would keep it all.
            if thread.writes:
                kept = set(thread.regions)
                thread.writes = {
                    key: writes for key, writes in thread.writes.items() if writes[-1].region in kept
                }
        thread.depth += 1
        self.pending.append(thread.depth)

    def exit(self, *_: Any) -> None:
        thread = self._thread
        if thread.depth:  # else it began before the installation
            thread.depth -= 1
            self.pending.pop()
            if not thread.depth:
                thread.regions[-1].end = compat.graph.next_sequence_number()

    # --- writes ---------------------------------------------------------------------------------------------

    def before_write(self, tensor: torch.Tensor, operation: str, *args: Any, **kwargs: Any) -> None:
        """Note a write that a copy may be made before; empty the cache if the session repairs."""
        thread = self._thread
        # `cached_cast` keeps copies of float32 leaves only.
        if not thread.depth or tensor.dtype is not torch.float32:
            return
        if not compat.entries.autocast_keeps_copies():  # `enabled=False`, or `cache_enabled=False`
            return
        key = compat.tensors.storage_key_or_none(tensor)
        # By memory, because `.data` and `detach()` are other tensors than the leaf (through_data.py).
        if key is None or compat.graph.has_history(tensor):
            return
        conflicts, base = saves.receiver(), tensor._base
        repairs = conflicts is not None and conflicts.repairs
        # `abs` writes its result, no memory of a leaf. An emptied cache changes how gradients are rounded.
        if not (tensor if base is None else base).requires_grad:
            repairs = repairs and compat.tensors.holders(tensor) > (1 if base is None else 2)
        number = compat.graph.next_sequence_number()
        writes = thread.writes.setdefault(key, [])
        writes.append(_LeafWrite(thread.regions[-1], number, operation, of_program(), repairs))
        del writes[:-_MOST_OF_A_LEAF]
        if repairs:  # nothing is lost but a cast of each weight: the next reader makes a new copy
            torch.clear_autocast_cache()

    # --- readers --------------------------------------------------------------------------------------------

    def begin(self, call: EngineCall) -> None:
        """Report the old copies that the graph of a backward was computed from."""
        thread = self._thread
        if not (thread.writes or thread.depth) or call.is_internal:
            return
        conflicts = saves.receiver()
        # a session that repairs must know by the write which leaves had a copy
        if conflicts is None or not (thread.writes or conflicts.repairs):
            return
        with compat.unseen.unseen_by_functions():
            graph = call.graph() or {}  # None if it is too large to look at
            parents: dict[Any, list[Any]] = {}
            for node in graph.values():
                for child in compat.graph.children(node):
                    parents.setdefault(child, []).append(node)
            casts = [node for node in parents if compat.graph.cast_leaf(node) is not None]
            casts.sort(key=compat.graph.sequence_number)  # the old copy first, whatever the graph's order
            outdated = [report for copy in casts for report in self._outdated(conflicts, copy, parents)]
        for report in outdated:
            report()

    def _outdated(
        self, conflicts: Conflicts, copy: Any, parents: Mapping[Any, list[Any]]
    ) -> Iterator[Callable[[], None]]:
        """Yield for each write to a leaf that ``copy`` is too old for, or would have been, what reports it.

        Args:
            copy: The node of a cast, in a backward's graph.
            parents: The nodes that have an edge to each node of that graph.
        """
        leaf: Any = compat.graph.cast_leaf(copy)
        key = compat.tensors.storage_key_or_none(leaf)
        number_of = compat.graph.sequence_number
        thread, made = self._thread, number_of(copy)
        region = next((region for region in thread.regions if made in region), None)
        if key is None or region is None:
            return  # the program's own cast outside of regions, or another thread's
        oldest = region.copied[key] = min(made, region.copied.get(key, made))
        readers, reports = parents[copy], dict[Stack, Callable[[], None]]()  # one for a line, as in a loop
        for write in thread.writes.get(key, ()):
            if write.region is not region:
                continue
            stale = [reader for reader in readers if made < write.number <= number_of(reader)]
            # A weight may have been set up in the region, before the first copy.
            if stale or (write.emptied and oldest < write.number <= made):
                # Only a known line is shown: most readers save something, and those that don't have parents.
                read = next(_places((stale or readers)[0], parents), ())
                facts = leaf, write.operation, write.stack, read
                reports[write.stack] = partial(conflicts.stale_copy, *facts, repaired=not stale)
        yield from reports.values()


def _places(reader: Any, parents: Mapping[Any, list[Any]]) -> Iterator[Stack]:
    """Yield the stacks of what ``reader``, or an operation that uses its result, has saved."""
    nodes = [reader]
    for _ in range(_FARTHEST):
        for node in nodes:
            for _, kept in compat.kept.raw_saved(node):
                if isinstance(kept, SavedTensor):
                    yield kept.stack
        nodes = [above for node in nodes for above in parents.get(node, ())]


copies = CopiedWeights()
kernels.accompany(copies)


def install(patches: Patches) -> None:
    patches.precede(torch.autocast, "__enter__", copies.enter)
    patches.precede(torch.autocast, "__exit__", copies.exit)
    patches.at_undo(copies.forget)
    patches.while_active(copies.follow_backwards)
