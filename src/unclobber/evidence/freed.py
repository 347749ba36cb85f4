"""A graph that backward went through already: which node is spent, and what leads there.

When backward asks for a saved tensor, the node that asks is given a note of where its operation
ran and which call asked (``hooks.saves``). The note lies in the node's own ``metadata`` and dies with it.
After a second backward has failed, the walk below goes through the graph as the engine did, latest
operation first, to the node whose saved tensors are gone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..hooks import BackwardCall, BackwardMark, backward
from ..hooks.graph import MOST, children, needed, node_of, reachable_from
from ..source import Stack
from ..torch_internals import compat


class Note(NamedTuple):
    """What a node was told when backward asked for what it saved."""

    stack: Stack
    mark: BackwardMark | None


@dataclass
class FreedNode:
    """Where the engine came to a halt."""

    node: Any
    way: list[Any] = field(default_factory=list)
    """The nodes from the root to it, root first, itself last."""
    certain: bool = True
    """False where it may have been one further on: ``node`` is then the first in question."""
    by: BackwardMark | None = None
    """Who went through it before, where the node itself bears no note of that."""
    beyond: FreedNode | None = None
    """Where it is not certain, the first one further on of which it is."""


def note_of(node: Any) -> Note | None:
    """Where the node's operation ran and which backward asked last; None if none did while watched."""
    found = backward.marker.note_of(node)
    return None if found is None else Note(*found)


def began_here(node: Any) -> tuple[BackwardMark, ...]:
    """The last two backwards that began at the node, oldest first."""
    found: tuple[BackwardMark, ...] = node.metadata.get(compat.ROOT_NOTE, ())
    return found


def begun_before(node: Any, call: BackwardCall) -> BackwardMark | None:
    """An earlier backward that began at the node and freed its graph."""
    earlier = [mark for mark in began_here(node) if mark.nth < call.nth and not mark.keeps_graph]
    return earlier[-1] if earlier else None


def first_freed(call: BackwardCall, tensors: Iterable[torch.Tensor] = ()) -> FreedNode | None:
    """The node at which a backward has failed, as the engine orders nodes.

    Args:
        call: The backward that failed.
        tensors: What the program still holds: an earlier backward may have begun at one of them.
    Returns:
        None where none is found, or the graph is too large.
    """
    starts = [node for node in map(node_of, call.roots) if node is not None]
    again = any(begun_before(node, call) is not None for node in starts)
    every = reachable_from(starts)
    if every is None:
        return None
    chosen = needed(every, call.inputs) if call.inputs else every
    order = _EngineOrder(starts, every)
    doubtful: list[Any] = []
    """Released ones of which it can't be seen who has run them: an earlier call, or this one."""
    beyond: FreedNode | None = None
    for node in order:
        if id(node) not in chosen:
            continue
        spent = True if again and _is_released(node) is not False else _was_freed(node, call)
        if spent and not doubtful:
            return FreedNode(node, order.way(node))
        if spent is not False:
            doubtful.append(node)
        if spent:
            beyond = None if note_of(node) is None else FreedNode(node, order.way(node))
            break
        if _ran(node, call):
            doubtful.clear()  # this call has come further
    if not doubtful:
        return None
    first = doubtful[0]
    by = _gone_through(first, call, tensors)
    certain = len(doubtful) == 1 or by is not None
    return FreedNode(first, order.way(first), certain, by, None if certain else beyond)


class _EngineOrder:
    """The nodes of a graph as the engine runs them: a node after all that lead to it, and of those that can
    run the one made last, by one queue as on one device."""

    def __init__(self, starts: Sequence[Any], every: Mapping[int, Any]) -> None:
        self._starts = starts
        self._every = every
        self._came_from: dict[int, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        waiting = dict.fromkeys(self._every, 0)
        for node in self._every.values():
            for child in children(node):
                waiting[id(child)] += 1
        first = {id(node): node for node in self._starts if not waiting[id(node)]}
        queue = [(-compat.sequence_number(node), key) for key, node in first.items()]
        heapq.heapify(queue)
        while queue:
            node = self._every[heapq.heappop(queue)[1]]
            yield node
            for child in children(node):
                waiting[id(child)] -= 1
                self._came_from.setdefault(id(child), node)
                if not waiting[id(child)]:
                    heapq.heappush(queue, (-compat.sequence_number(child), id(child)))

    def way(self, node: Any) -> list[Any]:
        """The nodes from a start to one that has been given, start first."""
        return _way(node, self._came_from)


def _ran(node: Any, call: BackwardCall) -> bool:
    """Whether ``call`` was the last to ask the node for what it saved."""
    note = note_of(node)
    return note is not None and note.mark is not None and note.mark.nth == call.nth


def _gone_through(node: Any, call: BackwardCall, tensors: Iterable[torch.Tensor]) -> BackwardMark | None:
    """An earlier backward that began at one of ``tensors`` and went through ``node``."""
    for tensor in tensors:
        start = compat.grad_fn(tensor)
        mark = None if start is None else begun_before(start, call)
        if mark is not None:
            every = reachable_from([start])
            if every is not None and id(node) in every and not mark.chosen:
                return mark
    return None


def freed_below(node: Any, call: BackwardCall) -> BackwardMark | None:
    """The one backward that freed what lies below ``node``; None if there were several, or none.

    A call that ran the node ran its inputs' nodes as well, and only once.
    """
    every = reachable_from([node])
    notes = [] if every is None else [note for one in every.values() if (note := note_of(one)) is not None]
    marks = {note.mark for note in notes}
    if len(marks) != 1:
        return None
    mark = marks.pop()
    return mark if mark is not None and mark.nth < call.nth and not mark.keeps_graph else None


def freed_function(ctx: Any, roots: Sequence[Any]) -> FreedNode:
    """The same for a custom Function, whose own ``backward`` failed to read ``ctx.saved_tensors``."""
    starts = [node for node in map(node_of, roots) if node is not None]
    came_from: dict[int, Any] = {}
    todo = list(starts)
    seen = {id(node) for node in todo}
    keep = list(todo)
    while todo and len(keep) < MOST:
        node = todo.pop()
        if node is ctx:
            break
        for child in children(node):
            if id(child) not in seen:
                seen.add(id(child))
                keep.append(child)
                came_from[id(child)] = node
                todo.append(child)
    return FreedNode(ctx, _way(ctx, came_from))


def _was_freed(node: Any, call: BackwardCall) -> bool | None:
    """Whether the node was spent before ``call`` came to it; None where that can't be seen.

    What ``call`` itself ran is released by now, too.
    """
    note = note_of(node)
    if note is not None:
        if note.mark is None:
            return None
        return note.mark.nth != call.nth and not note.mark.keeps_graph and _is_released(node) is not False
    if _is_released(node) is False:
        return False
    # It saved only what no hook is shown (a Python number), or before watching began.
    return False if call.fresh_from is not None and compat.sequence_number(node) >= call.fresh_from else None


def _is_released(node: Any) -> bool | None:
    """Whether the node would refuse to run again; None where that can't be seen."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return False  # it fails in its own backward, if that reads what was saved
    if node.name().endswith("CopySlices"):
        return None  # what it wraps is out of sight
    return any(compat.is_freed(node, name) for name in compat.raw_attributes(node))


def freed_role(node: Any) -> str | None:
    """The node's name for what it saved, where it saved just one tensor."""
    roles = [name for name in compat.raw_attributes(node) if compat.is_freed(node, name)]
    return roles[0].removeprefix("_raw_saved_") if len(roles) == 1 else None


def _way(node: Any, came_from: dict[int, Any]) -> list[Any]:
    way = [node]
    while id(way[-1]) in came_from:
        way.append(came_from[id(way[-1])])
    return way[::-1]
