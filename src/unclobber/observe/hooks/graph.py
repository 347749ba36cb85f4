"""Graph below a backward: the nodes that it can come to, and those that it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch

from ...torch_internals import compat
from ...torch_internals.engine import EngineCall
from .backward import BackwardCall

MOST = 100_000
"""Number of nodes looked at; a larger graph is left out of the explanation."""


def reachable(call: BackwardCall | EngineCall) -> dict[int, Any] | None:
    """Return all nodes that a backward can come to, by id; None if they are more than ``MOST``."""
    return reachable_from(map(node_of, call.roots))


def node_of(root: Any) -> Any:
    """Return the node that a tensor or gradient edge is an output of; None for a leaf."""
    if isinstance(root, torch.Tensor):
        return compat.graph.grad_fn(root)
    return getattr(root, "node", None)


def children(node: Any) -> Iterator[Any]:
    return (child for child, _ in node.next_functions if child is not None)


def reachable_from(starts: Iterable[Any]) -> dict[int, Any] | None:
    """Return all nodes that can be reached from ``starts``, by id; None if they are more than ``MOST``."""
    every = {id(node): node for node in islice(compat.graph.nodes_below(starts), MOST + 1)}
    return every if len(every) <= MOST else None


def needed(every: dict[int, Any], inputs: Sequence[Any]) -> set[int]:
    """Return the ids of the nodes on a way to an input; the engine skips all others."""
    wanted = {id(node_of(target) or _accumulator(target)) for target in inputs}
    parents: dict[int, list[int]] = {}
    for key, node in every.items():
        for child in children(node):
            parents.setdefault(id(child), []).append(key)
    running: set[int] = set()
    todo = [parent for key in wanted for parent in parents.get(key, ())]
    while todo:
        key = todo.pop()
        if key not in running:
            running.add(key)
            todo.extend(parents.get(key, ()))
    return running


def _accumulator(tensor: Any) -> Any:
    return torch.autograd.graph.get_gradient_edge(tensor).node
