"""A graph that an earlier backward freed: the freed node, and the way to it.

When backward unpacks a saved tensor, ``hooks.saves`` notes of the node: the stack of its operation, and the
unpacking call. After a second backward has failed, this file walks the graph in the engine's order, latest
operation first, to the node whose saved tensors are freed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..observe.hooks import BackwardCall, BackwardMark, backward_calls
from ..torch_internals import compat


@dataclass
class FreedNode:
    """The node at which the engine stopped."""

    node: Any
    way: list[Any]  # the nodes from the root to ``node``, root first, ``node`` last
    certain: bool = True
    """False if the engine may have stopped at a later node; ``node`` is then the first candidate."""
    by: BackwardMark | None = None
    """The earlier backward that freed the node, if it is known although the node has no note."""
    beyond: FreedNode | None = None
    """The first later node that is certainly freed and has a note, if ``node`` is not certain."""


def latest_before(node: Any, call: BackwardCall) -> BackwardMark | None:
    marks = backward_calls.started_at(node)
    earlier = [mark for mark in marks if mark.nth < call.nth and not mark.keeps_graph]
    return earlier[-1] if earlier else None


def first_freed(call: BackwardCall, tensors: Iterable[torch.Tensor]) -> FreedNode | None:
    """Return the node at which a backward failed, in the engine's order.

    Args:
        call: The backward that failed.
        tensors: Tensors that the program still holds, because an earlier backward may have started at one of
            them.
    Returns:
        None if no node is freed, or the graph is too large.
    """
    starts = call.of_engine.starts
    again = any(latest_before(node, call) is not None for node in starts)
    every = compat.graph.reachable(starts)
    if every is None:
        return None
    # `autograd.grad(y, v)` runs only the nodes on the way to `v`.
    chosen = call.of_engine.runs_of(every)
    order = _EngineOrder(starts, every)
    doubtful: list[Any] = []
    """Released nodes of which it isn't known whether an earlier call ran them, or this one."""
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
            beyond = None if backward_calls.note_of(node) is None else FreedNode(node, order.way(node))
            break
        if _ran(node, call):
            doubtful.clear()  # This call has passed the candidates, so it did not stop there.
    if not doubtful:
        return None
    first = doubtful[0]
    by = _gone_through(first, call, tensors)
    certain = len(doubtful) == 1 or by is not None
    return FreedNode(first, order.way(first), certain, by, None if certain else beyond)


class _EngineOrder:
    """The nodes of a graph in the engine's order: each after all that lead to it; of several ready ones, the
    one made last. As on one device, there is one queue."""

    def __init__(self, starts: Sequence[Any], every: Mapping[int, Any]) -> None:
        self._starts = starts
        self._every = every
        self._came_from: dict[int, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        """Yield the nodes in the engine's order, and note for each the node that led to it."""
        waiting = dict.fromkeys(self._every, 0)
        for node in self._every.values():
            for child in compat.graph.children(node):
                waiting[id(child)] += 1
        first = {id(node): node for node in self._starts if not waiting.get(id(node), 1)}
        queue = [(-compat.graph.sequence_number(node), key) for key, node in first.items()]
        heapq.heapify(queue)
        while queue:
            node = self._every[heapq.heappop(queue)[1]]
            yield node
            for child in compat.graph.children(node):
                waiting[id(child)] -= 1
                self._came_from.setdefault(id(child), node)
                if not waiting[id(child)]:
                    heapq.heappush(queue, (-compat.graph.sequence_number(child), id(child)))

    def way(self, node: Any) -> list[Any]:  # start first
        way = [node]
        while id(way[-1]) in self._came_from:
            way.append(self._came_from[id(way[-1])])
        return way[::-1]


def _ran(node: Any, call: BackwardCall) -> bool:
    note = backward_calls.note_of(node)
    return note is not None and note.mark is not None and note.mark.nth == call.nth


def _gone_through(node: Any, call: BackwardCall, tensors: Iterable[torch.Tensor]) -> BackwardMark | None:
    """Return an earlier backward that began at one of ``tensors`` and ran ``node``; None if there is none."""
    for tensor in tensors:
        start = compat.graph.grad_fn(tensor)
        mark = None if start is None else latest_before(start, call)
        if mark is not None and not mark.chosen and id(node) in (compat.graph.reachable([start]) or {}):
            return mark
    return None


def freed_below(node: Any, call: BackwardCall) -> BackwardMark | None:
    """Return the one backward that freed the nodes below ``node``; None if there were several, or none.

    A call that ran the node ran its inputs' nodes as well, and only once.
    """
    every = compat.graph.reachable([node]) or {}
    notes = map(backward_calls.note_of, every.values())
    marks = {note.mark for note in notes if note is not None}
    if len(marks) != 1:
        return None
    mark = marks.pop()
    return mark if mark is not None and mark.nth < call.nth and not mark.keeps_graph else None


def freed_function(ctx: Any, starts: Sequence[Any]) -> FreedNode:  # tests/programs/UC301/custom_function.py
    order = _EngineOrder(starts, compat.graph.reachable(starts) or {})
    next((node for node in order if node is ctx), None)
    return FreedNode(ctx, order.way(ctx))


def _was_freed(node: Any, call: BackwardCall) -> bool | None:
    """Return whether the node was freed before ``call`` reached it; None if that isn't known.

    Nodes that ``call`` itself ran are released by now too, so being released is not enough.
    """
    note = backward_calls.note_of(node)
    if note is not None:
        if note.mark is None:
            return None
        return note.mark.nth != call.nth and not note.mark.keeps_graph and _is_released(node) is not False
    if _is_released(node) is False:
        return False
    # It saved only a Python number, for which no hook is called, or before watching began:
    # tests/programs/UC301/one_of_several_numbers.py.
    is_fresh = call.fresh_from is not None and compat.graph.sequence_number(node) >= call.fresh_from
    return False if is_fresh else None


def _is_released(node: Any) -> bool | None:  # None if it isn't known
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        return False  # it fails in its own backward, if that reads a saved tensor
    if node.name().endswith("CopySlices"):
        return None  # the wrapped node can't be reached
    return bool(compat.kept.freed_roles(node))


def freed_role(node: Any) -> str | None:
    roles = compat.kept.freed_roles(node)
    return roles[0] if len(roles) == 1 else None  # None if it saved more than one
