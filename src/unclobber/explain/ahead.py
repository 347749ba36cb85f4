"""Saved tensors that torch would have refused next, had the same backward not stopped at an earlier one.

Only saves that a node is certain to unpack count: those of torch's own nodes, which unpack all of them before
they compute anything (torch/csrc/autograd/generated/Functions.cpp), and of a custom Function whose backward
always reads ``ctx.saved_tensors``. Saves hidden by inner hooks or inside a ``CopySlices`` can't be reached
from their node. tests/property/test_refused_too.py compares the list with torch.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from inspect import unwrap
from itertools import takewhile
from typing import Any

import torch

from ..observe.hooks import BackwardCall, backward_calls
from ..observe.record import Ledger, SavedTensor
from ..source import code_of, is_library
from ..torch_internals import compat
from . import reads


def refused_too(first: SavedTensor, ledger: Ledger) -> Iterator[tuple[SavedTensor, Any]]:
    """Yield the other saves that the running backward would refuse, each with the node that has yet to unpack
    it, in the order in which it would unpack them."""
    saves = (kept for kept in ledger.saves() if kept is not first and not kept.unchecked)
    # A save that lost its history belongs to another code.
    whole = (kept for kept in saves if kept.entry is None or kept.entry.detached is None)
    moved = {id(kept) for kept in whole if kept.alias._version != kept.version}
    call = backward_calls.current()
    if not moved or call is None:
        return
    running = compat.graph.current_node()
    nodes = [node for node in reads.visited() if node is running or not backward_calls.has_unpacked(node)]
    for node in sorted(nodes, key=compat.graph.sequence_number, reverse=True):
        if _is_freed(node, call):
            return  # torch stops at a freed node
        for _, kept in reads.kept_by(node):
            if id(kept) in moved and _unpacks_all(node):
                yield kept, node


def _unpacks_all(node: Any) -> bool:
    """Return whether the node is certain to unpack all that it keeps: it is torch's, or its Function's
    backward reads ``ctx.saved_tensors`` before the code can branch."""
    if not isinstance(node, torch.autograd.function.BackwardCFunction):
        return True
    # Decorators of torch's (`once_differentiable`, `custom_bwd`) always call the function.
    backward = type(node)._forward_cls.backward  # type: ignore[attr-defined]
    code = code_of(unwrap(backward, stop=lambda wrapper: not is_library(code_of(wrapper) or "")))
    steps = [] if code is None else dis.get_instructions(code)
    before = takewhile(lambda step: step.opcode not in dis.hasjrel and "RETURN" not in step.opname, steps)
    return any(step.argval == "saved_tensors" for step in before)


def _is_freed(node: Any, call: BackwardCall) -> bool:
    note = backward_calls.note_of(node)
    if note is None or note.mark is None or note.mark.nth >= call.nth:
        return False
    return bool(compat.kept.freed_roles(node))
