"""Backward nodes: what they keep, how they are numbered, and which node made a tensor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch

from ._modes import unseen_by_modes
from .tensors import base_of, grad_fn_of, is_functorch_wrapper, is_leaf

# The node whose backward runs in this thread (None outside), and whether its call keeps the graph: private.
current_node = torch._C._current_autograd_node
keeps_graph = torch._C._autograd._get_current_graph_task_keep_graph

_PROXY = torch._C._TorchDispatchModeKey.PROXY

# How a view was made, which decides whether torch follows it after a write (variable.h, ``CreationMeta``; in
# Python since 1.13, for functionalization). A public ``grad_fn`` without side effects would do instead.
_creation = torch._C._autograd._get_creation_meta
_set_creation = torch._C._autograd._set_creation_meta
_ORDINARY = torch._C._autograd.CreationMeta.DEFAULT
_ONE_OF_MANY = torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE
_UNRECORDED = (torch._C._autograd.CreationMeta.NO_GRAD_MODE, torch._C._autograd.CreationMeta.INFERENCE_MODE)


def grad_fn(tensor: torch.Tensor) -> Any:
    """Return the node that made ``tensor``; None if there is none, or for a view that was written since.

    Reading ``grad_fn`` of such a view makes torch build a new node, which no graph has yet. Torch refuses
    for one of several views that one call returned, and for a view made under ``no_grad``.
    """
    return grad_fn_of(tensor) if base_of(tensor) is None else _looked_at(tensor)[0]


def derivative(output: torch.Tensor, gradient: torch.Tensor) -> Any:
    """Return the first input's gradient from the node that made ``output``, without torch's engine."""
    node: Any = grad_fn(output)
    return (node.apply if hasattr(node, "_forward_cls") else node)(gradient)[0]


def has_history(tensor: torch.Tensor) -> bool:
    """Return whether autograd has recorded how ``tensor`` was made, so that it is no leaf."""
    if base_of(tensor) is None:
        return not is_leaf(tensor)
    node, is_old = _looked_at(tensor)
    return node is not None or (is_old and _creation(tensor) not in _UNRECORDED)


def _looked_at(view: torch.Tensor) -> tuple[Any, bool]:
    """Return the node of a view, and whether a write has made it unknown.

    While the view is marked as one of several, torch makes no new node: it compares the counter, and
    refuses or not.
    """
    ordinary = _creation(view) == _ORDINARY
    if ordinary:
        _set_creation(view, _ONE_OF_MANY)
    try:
        return grad_fn_of(view), False
    except RuntimeError:
        return None, True
    finally:
        if ordinary:
            _set_creation(view, _ORDINARY)


def renewed_grad_fn(tensor: torch.Tensor) -> Any:
    """Return ``grad_fn`` as torch itself is about to read it: a new node for a view whose memory was written.

    None if torch is about to refuse that.
    """
    try:
        return grad_fn_of(tensor)
    except RuntimeError:
        return None


def why_unusable(view: torch.Tensor) -> str | None:
    """Return torch's sentence if it refuses to use a view whose memory was written, else None."""
    # Reading `grad_fn` of an ordinary view would make a new node, and torch never refuses one.
    if base_of(view) is None or _creation(view) == _ORDINARY:
        return None
    try:
        grad_fn_of(view)
    except RuntimeError as error:
        return str(error)
    return None


def is_internal_backward(outputs: Sequence[Any]) -> bool:
    """Return whether torch runs this backward by itself, as a part of one operation or call of the program.

    A ``torch.func`` transform does: its tensors are wrappers. A tracer does: AOTAutograd records the joint
    graph of a function that it compiles by running a backward of stand-ins (since 2.0; tests/compile).
    """
    first = outputs[0] if outputs else None
    return is_tracing() or (isinstance(first, torch.Tensor) and is_functorch_wrapper(first))


def is_tracing() -> bool:
    """Return whether this thread is in ``torch.compile``'s tracer, or in one of ``make_fx``.

    ``torch.compiler.is_compiling`` is a flag of the whole process: another thread's compilation sets it.
    """
    # Before torch 2.15 `TracingContext.try_get` raises and catches inside if this thread never traced.
    tracing = torch._guards._TLS.__dict__.get("tracing_context")
    return tracing is not None or torch._C._get_dispatch_mode(_PROXY) is not None


def saved_by(node: Any, role: str) -> torch.Tensor:
    """Return a tensor that a node keeps, as the node would get it.

    The unpack hook is called, and its result gets the history that torch remembers. ``_saved_*`` attributes:
    see torch/autograd/graph.py.
    """
    name, _, index = role.removesuffix("]").partition("[")
    kept = reader_of(node, name)()
    element: torch.Tensor = kept[int(index)] if index else kept
    return element


def reader_of(node: Any, role: str) -> Callable[[], Any]:
    """Return a function of C that reads what ``node`` keeps; a custom Function's node has one role alone."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        of_functions: Any = torch._C._FunctionBase.saved_tensors
        return partial(of_functions.__get__, node)
    return partial(getattr, node, f"_saved_{role}")


def is_view_of(node: Any, tensor: torch.Tensor) -> bool:
    """Return whether an ``AsStridedBackward0`` made a view with the sizes, strides and offset of ``tensor``
    (``_saved_*``: see torch/csrc/autograd/generated, stable since 1.9)."""
    geometry = (tuple(node._saved_size), tuple(node._saved_stride), node._saved_storage_offset)
    return geometry == (tuple(tensor.size()), tensor.stride(), tensor.storage_offset())


def has_unnamed_saves(node: Any) -> bool:
    """Return whether a node has no Python class with ``_saved_*`` attributes (``_foreach_exp``, extensions in
    C++; torch/csrc/autograd/python_cpp_function.cpp)."""
    return type(node).__name__ == "CppFunction"


_TRAINS = ("_saved_training", "_saved_train", "_saved_update")
_TRAINS_ALWAYS = ("BatchNormWithUpdate", "CudnnBatchNormBackwardBackward", "MiopenBatchNormBackwardBackward")


def trains(node: Any) -> bool:
    """Return whether a node is that of a batch norm in training mode, or of the backward of one.

    ``_saved_*``: see torch/csrc/autograd/generated; stable since 1.9. The second kind calls its flag
    ``train`` or ``update``; Cudnn's and Miopen's have none, because torch gives True for it
    (tools/autograd/derivatives.yaml, ``cudnn_batch_norm_backward``).
    """
    if node is None:
        return False
    name = type(node).__name__
    return any(getattr(node, flag, False) for flag in _TRAINS) or any(kind in name for kind in _TRAINS_ALWAYS)


MOST_NODES = 100_000  # number of nodes looked at; a larger graph is left out of the explanation


def children(node: Any) -> list[Any]:
    return [child for child, _ in node.next_functions if child is not None]


def cast_leaf(node: Any) -> torch.Tensor | None:
    """Return the leaf that a node casts to another dtype or device; None for other nodes.

    ``ToCopyBackward0`` is the node of ``_to_copy``, as ``derivatives.yaml`` has it since 1.10;
    ``AccumulateGrad`` shows its leaf as ``variable``.
    """
    if node.name() != "ToCopyBackward0":
        return None
    leaf: torch.Tensor | None = getattr(node.next_functions[0][0], "variable", None)
    return leaf


def node_of(root: Any) -> Any:
    """Return the node that a tensor or gradient edge is an output of; None for a leaf."""
    return grad_fn(root) if isinstance(root, torch.Tensor) else getattr(root, "node", None)


def reachable(starts: Iterable[Any]) -> dict[int, Any] | None:
    """Return all nodes that a backward can come to, by id; None if more than ``MOST_NODES``."""
    every = {id(node): node for node in islice(nodes_below(starts), MOST_NODES + 1)}
    return every if len(every) <= MOST_NODES else None


def on_a_way_to(inputs: Sequence[Any], every: Mapping[int, Any]) -> set[int]:
    """Return the ids of the nodes of ``every`` on a way to an input, a tensor or gradient edge."""
    edge_of = torch.autograd.graph.get_gradient_edge
    with unseen_by_modes():  # a leaf's edge is that of a new view
        wanted = {id(node_of(target) or edge_of(target).node) for target in inputs}
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


def nodes_below(starts: Iterable[Any], but: Container[Any] = ()) -> Iterator[Any]:
    """Yield the nodes that a backward can come to, each once: ``starts``, and what their edges lead to.

    Args:
        starts: Nodes; None among them is left out.
        but: Nodes that are left out, with those that only they lead to.
    """
    seen: set[Any] = set()
    todo = [node for node in starts if node is not None]
    while todo:
        node = todo.pop()
        if node not in seen and node not in but:
            seen.add(node)
            yield node
            todo += children(node)


next_sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""The number that the next backward node of this thread will get (30 ns).

An operation's node is made just before its kernel is dispatched, so that the number before this one
is the operation's; the profiler joins forward and backward by it. Private, since 1.7.
"""


def result_of(node: Any) -> tuple[tuple[int, ...], torch.dtype]:
    """Return shape and type of the result of a node's operation.

    ``_input_metadata``, which describes the node's incoming gradient, is there since 2.6.
    """
    described = node._input_metadata
    return (tuple(described[0].shape), described[0].dtype) if described else ((), torch.float32)


def node_key(node: Any) -> tuple[int, int]:
    """A key of a backward node, which no other has while it lives, and hardly one later.

    A node's Python object may be replaced (until 2.12), its ``metadata`` (public since 1.7) is one for good.
    """
    return id(node.metadata), node._sequence_nr()


with unseen_by_modes():
    _with_hooks = torch.empty(0, device="cpu")
_lock = threading.Lock()


def live_with(node: Any, companion: dict[Any, Any]) -> None:
    """Let a node hold an empty dict as long as it lives, as it holds the hooks of a tensor that it has made.

    ``_register_hook_dict``: see ``Tensor.register_hook`` in torch/_tensor.py, since 0.2. Nothing is called.
    """
    with _lock:
        _with_hooks._backward_hooks = companion
        node._register_hook_dict(_with_hooks)
        _with_hooks._backward_hooks = None


def sequence_number(node: Any) -> int:
    """Return the number of a backward node; greater than any real one for ``AccumulateGrad``."""
    return int(node._sequence_nr())


def reduction_of(node: Any) -> str | None:
    """Return the reduction of a ``scatter_reduce`` or ``index_reduce`` node; None for other nodes."""
    reduction = getattr(node, "_saved_reduce", None)
    return reduction if isinstance(reduction, str) else None
