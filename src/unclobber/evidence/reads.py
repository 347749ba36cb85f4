"""What decides a verdict besides the ledger: whether the running node minds what happened to a tensor.

Asked before any story is made; nothing here looks at a source.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from ..derivatives import reads_shape_alone
from ..hooks import kernels as _writes_table
from ..record import Ledger, SavedTensor
from ..source import frames
from ..torch_internals import compat


def is_own_result(saved: SavedTensor) -> bool:
    """Whether ``saved`` is what the operation of the running node computed."""
    origin, node = saved.origin(), compat.current_node()
    return origin is not None and node is not None and saved.base is None and compat.grad_fn(origin) is node


def detached(saved: SavedTensor) -> frames.Stack | None:
    """Where ``saved`` lost its history, if the running node minds: a custom Function's doesn't."""
    if saved.entry is None or saved.entry.detached is None or saved.unchecked:
        return None
    origin = saved.origin()
    if origin is not None and compat.has_history(origin):
        return None  # a later write has given it a history again
    node = compat.current_node()
    role = role_of(node, saved)
    found = unpacked(node, role)
    if found is not None and is_result(found, node, role):
        return None  # written to in between: it was not seen to be one where it was detached
    function = isinstance(node, torch.autograd.function.BackwardCFunction)
    return None if function else saved.entry.detached


_READ_FOR = {
    ("ConvolutionBackward0", "weight"): 0,
    ("ConvolutionBackward0", "input"): 1,
    ("NativeLayerNormBackward0", "weight"): 0,
    ("NativeGroupNormBackward0", "weight"): 0,
    ("NativeBatchNormBackward0", "weight"): 0,
}
"""By node and role, the one input whose gradient is computed from the tensor: it is saved always."""


def never_read(saved: SavedTensor, ledger: Ledger, node: Any = None) -> bool:
    """Whether a node that asks for ``saved`` (the running one, if none is given) has no use for its values:
    running statistics in training, the weight of a first layer, whose input needs no gradient, an input that
    is kept for its shape.

    Batch norm's kernel updates them itself, after they were saved; only in evaluation does its
    backward read them. It writes nothing else, so its writes tell them apart where the node's own
    name for the tensor is hidden by inner hooks.
    """
    node = compat.current_node() if node is None else node
    role = role_of(node, saved)
    if node is not None and role is not None:
        name = node_name(node)
        if reads_shape_alone(name, role, compat.reduction_of(node)):
            return True
        reader = _READ_FOR.get((name, role))
        if reader is not None:
            return node.next_functions[reader][0] is None
    if not compat.trains(node):
        return False
    if role is not None:
        return role in ("running_mean", "running_var")
    seen = [event for event, hit in ledger.history(saved) if hit]
    return bool(seen) and all(_writes_table.is_undeclared(event.operation) for event in seen)


_SCRATCH = frozenset([("MkldnnRnnLayerBackward0", "result3")])
"""By node and role: memory that the node's own kernel writes to while it computes the gradient, such as
oneDNN's workspace."""


def is_scratch(saved: SavedTensor) -> bool:
    """Whether the running node itself writes to what it keeps as ``saved``."""
    node = compat.current_node()
    role = role_of(node, saved)
    return role is not None and (node_name(node), role) in _SCRATCH


def role_of(node: Any, saved: SavedTensor) -> str | None:
    """The node's own name for ``saved``, None outside of a node or where it can't be reached."""
    if node is None:
        return None
    for role, kept in compat.raw_saved(node):
        if kept is saved:
            return role
        if getattr(kept, "_unclobber_saved", None) is saved:
            return role
    return None


def node_name(node: Any) -> str:
    name = node.name()
    return str(name).rpartition(".")[2].rpartition("::")[2]


class _Asking(threading.local):
    now = False


_asking = _Asking()


def asking() -> bool:
    """Whether this thread's unpack hooks are asked for a tensor's history alone: nothing is to be checked."""
    return _asking.now


def unpacked(node: Any, role: str | None) -> torch.Tensor | None:
    """The saved tensor as the node would get it, with its history; None where the node isn't known."""
    if node is None or role is None:
        return None
    before, _asking.now = _asking.now, True
    try:
        return compat.saved_by(node, role)
    finally:
        _asking.now = before


def is_result(unpacked: torch.Tensor, node: Any, role: str | None) -> bool:
    """Whether the node's own operation made the tensor.

    Written in place to a view, the result's history begins with a node that leads from the base to the
    view, as long as that is alive.
    """
    producer = compat.grad_fn(unpacked)
    if producer is None:
        return False
    if producer is node:
        return True
    inputs = [edge for edge, _ in node.next_functions]
    return role is not None and role.startswith("result") and not any(edge is producer for edge in inputs)
