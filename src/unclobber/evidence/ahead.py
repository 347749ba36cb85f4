"""What else a backward needs that torch would refuse, had it not been refused before it came there.

Only saved tensors that their nodes are certain to ask for: those of torch's own nodes, which unpack all that
they keep before they compute anything (torch/csrc/autograd/generated/Functions.cpp). A custom Function asks
when its backward does. What inner hooks hide, and what lies inside a ``CopySlices``, no node shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ..hooks import backward
from ..hooks.graph import needed, reachable
from ..record import Ledger, SavedTensor
from ..torch_internals import compat


class Awaited(NamedTuple):
    """A saved tensor whose memory was written, and the node that is still to ask for it."""

    saved: SavedTensor
    node: Any


def refused_too(first: SavedTensor, ledger: Ledger) -> Iterator[Awaited]:
    """The other saved tensors that the running backward would refuse, in the order in which it would come
    to them.

    Args:
        first: The one that it has refused.
        ledger: Where it was recorded.
    """
    moved = {id(kept) for kept in ledger.saves() if kept is not first and _is_refused(kept)}
    call = backward.current()
    if not moved or call is None:
        return
    every = reachable(call)
    if every is None:
        return
    wanted = needed(every, call.inputs) if call.inputs else every.keys()
    running = compat.current_node()
    nodes = [node for key, node in every.items() if key in wanted and (node is running or not _has_run(node))]
    for node in sorted(nodes, key=compat.sequence_number, reverse=True):
        if _is_freed(node, call):
            return  # there torch refuses to go on
        if not isinstance(node, torch.autograd.function.BackwardCFunction):
            for _, kept in compat.raw_saved(node):
                if id(kept) in moved:
                    yield Awaited(kept, node)


def _is_refused(saved: SavedTensor) -> bool:
    """Whether torch's check of the version counter fails; one without history is another refusal's."""
    if saved.unchecked or (saved.entry is not None and saved.entry.detached is not None):
        return False
    return saved.alias._version != saved.version


def _has_run(node: Any) -> bool:
    """Whether the running backward has asked a node for what it saved, and went on."""
    told = backward.marker.note_of(node)
    return told is not None and told[1] is not None and told[1] is backward.marker.now


def _is_freed(node: Any, call: backward.BackwardCall) -> bool:
    """Whether a backward before this one has run a node and let go of what it saved."""
    told = backward.marker.note_of(node)
    if told is None or told[1] is None or told[1].nth >= call.nth:
        return False
    return any(compat.is_freed(node, name) for name in compat.raw_attributes(node))
