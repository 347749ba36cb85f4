"""Facts that decide a verdict besides the ledger: whether the running node is affected by a change of its
tensor.

They are known before any evidence is built, so nothing here reads source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch

from ..model import or_default
from ..observe.hooks import backward_calls, saves
from ..observe.hooks import kernels as _writes_table
from ..observe.record import Ledger, SavedTensor
from ..source import Stack
from ..syntax import torch_table
from ..torch_internals import compat


def detached(saved: SavedTensor) -> Stack | None:
    """Return where ``saved`` lost its history; None if it has one, or if the running node is a custom
    Function, which doesn't need it."""
    if saved.entry is None or saved.entry.detached is None or saved.unchecked:
        return None
    origin = saved.origin()
    if origin is not None and compat.graph.has_history(origin):
        return None  # a later write has given it a history again
    function = isinstance(compat.graph.current_node(), torch.autograd.function.BackwardCFunction)
    return None if function else saved.entry.detached


def is_detached(saved: SavedTensor) -> bool:
    """Return whether torch refuses a tensor because ``detach_`` removed its history. True if unknown."""
    is_noted = saved.entry is not None and saved.entry.detached is not None
    return is_noted and or_default(lambda: detached(saved) is not None, True)


_READ_FOR = {
    ("ConvolutionBackward0", "weight"): 0,
    ("ConvolutionBackward0", "input"): 1,
    ("NativeLayerNormBackward0", "weight"): 0,
    ("NativeGroupNormBackward0", "weight"): 0,
    ("NativeBatchNormBackward0", "weight"): 0,
}
"""By node and role, the index of the one input whose gradient is computed from the tensor. The node saves it
even if that gradient isn't needed:
tests/programs/allowed/weights_that_only_an_input_s_gradient_would_be_computed_from.py."""


def never_read(saved: SavedTensor, ledger: Ledger, node: Any = None) -> bool:
    """Return whether a node that unpacks ``saved`` (the running one if ``node`` is None) reads no values.

    Such saves are running statistics in training, the weight of a first layer whose input needs no gradient,
    and an input that is kept for its shape.

    Batch norm's kernel updates its running statistics after they were saved, and its backward reads them only
    in evaluation (tests/torch_facts/test_version_check.py). The kernel writes nothing else, so its writes
    identify them if inner hooks hide the node's name for the tensor.
    """
    node = compat.graph.current_node() if node is None else node
    role = role_of(node, saved)
    if node is not None and role is not None:
        name = node_name(node)
        if name.startswith("Prod") and role == "self" and not saved.alias.dim():  # `grad` is the gradient
            return True
        if torch_table().needs_shape_alone(name, role, compat.graph.reduction_of(node)):
            return True
        reader = _READ_FOR.get((name, role))
        if reader is not None:
            return node.next_functions[reader][0] is None
    # In training, batch norm updates its statistics itself: tests/programs/allowed/batch_norm_trains.py.
    if not compat.graph.trains(node):
        return False
    if role is not None:
        return role in ("running_mean", "running_var")
    seen = [event for event, hit in ledger.history(saved) if hit]
    return bool(seen) and all(event.operation in _writes_table.UNDECLARED for event in seen)


def is_scratch(saved: SavedTensor) -> bool:  # oneDNN's workspace, which the node's own kernel writes
    node = compat.graph.current_node()
    return role_of(node, saved) == "result3" and node_name(node) == "MkldnnRnnLayerBackward0"


def role_of(node: Any, saved: SavedTensor) -> str | None:
    """Return the node's own name for ``saved``; None outside of a node or if inner hooks hide it."""
    return next((role for role, kept in kept_by(node) if kept is saved), None)


def operand_of(node: Any, saved: SavedTensor) -> str | None:
    """Return the node's first name for the tensor, `self` of both factors of ``x * x``; None for a list's."""
    node = compat.graph.current_node() if node is None else node
    same = (role for role, kept in kept_by(node) if kept is saved or kept.is_again(saved))
    return next((role for role in same if "[" not in role), None)


def kept_by(node: Any) -> Iterator[tuple[str, SavedTensor]]:
    """Yield the save records that a node keeps, each with the node's name for it; none outside of a node."""
    for role, kept in () if node is None else compat.kept.raw_saved(node):
        for record in (kept, *(record for _, record in saves.records_of(kept))):
            if isinstance(record, SavedTensor):
                yield role, record


def visited() -> list[Any]:
    """Return the nodes that the running backward has run or will run; none if they aren't known."""
    call = backward_calls.current()
    graph = None if call is None else call.of_engine.graph()
    if call is None or graph is None:
        return []
    # Below autograd, as in a Function's own check, a leaf among the inputs has no edge.
    wanted: Collection[int] = or_default(partial(call.of_engine.runs_of, graph), ())
    return [node for key, node in graph.items() if key in wanted]


def node_name(node: Any) -> str:
    return str(node.name()).rpartition(".")[2].rpartition("::")[2]


_unpacking = ContextVar("unpacking", default=False)
"""Set in this thread while it unpacks a tensor only to learn its history."""


def is_unpacking() -> bool:
    """Return whether unpack hooks are called here for a tensor's history alone, and must not check it."""
    return _unpacking.get()


def unpacked(node: Any, role: str | None) -> torch.Tensor | None:
    """Return the saved tensor as the node would get it, with its history; None if that isn't known."""
    if node is None or role is None:
        return None
    outside = _unpacking.set(True)
    try:
        return compat.graph.saved_by(node, role)
    finally:
        _unpacking.reset(outside)


def is_result(unpacked: torch.Tensor, node: Any, role: str | None) -> bool:
    """Return whether the node's own operation made the tensor.

    If the operation wrote in place to a view, the result's history begins with another node. That node leads
    from the base to the view, as long as the view is alive.
    """
    producer = compat.graph.grad_fn(unpacked)
    is_role = role is not None and role.startswith("result")
    return producer is not None and (
        producer is node or (is_role and not any(edge is producer for edge, _ in node.next_functions))
    )
