"""torch's own sentence about a saved tensor that was written to, character by character.

Follows ``SavedVariable::unpack`` (torch/csrc/autograd/saved_variable.cpp). torch keeps an input, and any
leaf, as it is, so it describes the tensor as it has become. Of an operation's result it describes the saved
tensor. Facts of the save itself (its node, the output's number) come from the node, whose attributes return
the unpack hook's tensor with the history that torch gives it. Held by tests/unit/explain/test_sentence.py.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import torch

from ..derivatives import by_operation
from ..model import or_default
from ..observe.hooks import backward_calls
from ..observe.record import SavedTensor, SaveState
from ..syntax import torch_table
from ..torch_internals import compat
from ..torch_internals.engine import engine
from . import reads, spelling
from ._view_nodes import SINGLE_VIEW

_WHAT = "one of the variables needed for gradient computation has been modified by an inplace operation"


class _AnotherError(Exception):
    """torch raises another error: in the tensor's history it finds a view that may not be followed
    (``unbind``, views made under ``no_grad``)."""


def of(state: SaveState, node: Any, role: str | None, *, goes_on: bool) -> str | None:
    """Return torch's message for a tensor that ``node`` unpacks, up to its hint; None if torch raises
    nothing.

    Args:
        goes_on: Whether backward goes on after all, so that no view may be given a new history.
    """
    if reads.detached(state.saved) is not None:
        return compat.Sentence.DETACHED
    if not state.refused:
        return None
    try:
        return _of_version(state, node, role, goes_on)
    except _AnotherError as other:
        return str(other)


def in_any_case(state: SaveState, *, goes_on: bool) -> str | None:
    """Return the sentence after an internal error, at worst without the tensor's type, shape and producer."""
    saved = state.saved
    node, plain = compat.graph.current_node(), shortest(saved, state.version)
    if plain is None and saved.entry is not None and saved.entry.detached is not None:
        plain = compat.Sentence.DETACHED
    role = or_default(lambda: reads.role_of(node, saved), None)
    return or_default(lambda: of(state, node, role, goes_on=goes_on), plain)


def shortest(saved: SavedTensor, version: int) -> str | None:
    if version == saved.version or saved.unchecked:
        return None
    return f"{_WHAT}: it is at version {version}; expected version {saved.version} instead."


def _of_version(state: SaveState, node: Any, role: str | None, goes_on: bool) -> str:
    """Return the sentence about the version counter, with the tensor and producer that torch would show."""
    saved = state.saved
    unpacked = reads.unpacked(node, role)
    saved = _first_save(saved, unpacked)
    output = 0  # torch notes the output number of an operation's own results alone
    if unpacked is not None and reads.is_result(unpacked, node, role):
        shown, producer, output = saved.alias, _said(compat.graph.grad_fn(unpacked)), unpacked.output_nr
    elif (listed := _listed_result(saved, node)) is not None:
        shown, producer, output = saved.alias, _said(node), listed
    elif (hidden := _operation_in_copy_slices(saved, node)) is not None:
        shown, producer = saved.alias, _said_of(_STRIDED) if _view_is_followed(saved, node) else hidden
    elif (original := saved.origin()) is not None and not _stands_for_view(original, saved):
        shown, producer = original, _said(_history_of(original, goes_on))
    else:
        shown, producer = saved.alias, _producer_of_dead(saved, unpacked)
    made = "" if producer is None else f", which is output {output} of {producer},"
    return (
        f"{_WHAT}: [{_type_and_sizes(shown)}]{made} is at version {state.version}; expected version "
        f"{saved.version} instead."
    )


def _history_of(tensor: torch.Tensor, goes_on: bool) -> Any:
    """Return the node that made the tensor. torch rebuilds a view's node to name it when it refuses."""
    if goes_on:
        return compat.graph.grad_fn(tensor)
    refusal = compat.graph.why_unusable(tensor)
    if refusal is not None:
        raise _AnotherError(refusal)
    return compat.graph.renewed_grad_fn(tensor)


def _first_save(saved: SavedTensor, unpacked: torch.Tensor | None) -> SavedTensor:
    """Return the first save of the tensor, if a backward with ``create_graph`` got ``saved`` and saved it
    again.

    torch unpacks the very input that it keeps. unclobber's hook returns another tensor with the history of
    the save, which stays as it is when the input is written to. Held by tests/unit/explain/test_sentence.py.
    """
    log = None if saved.entry is None else saved.entry.log
    if unpacked is None or log is None or not engine.ran_below(saved.stack):
        return saved
    node = compat.graph.grad_fn(unpacked)
    alike = [other for other in log.saves() if other.is_again(saved)]
    own = [] if node is None else [kept for _, kept in compat.kept.raw_saved(node)]
    never = torch_table().saves_no_result_again
    if any(kept is other for kept in own for other in alike) and reads.node_name(node) not in never:
        return saved  # torch, too, unpacks a new tensor of a node's own result
    for other in itertools.takewhile(lambda other: other is not saved, alike):
        history = None if other.entry is None else other.entry.history
        if node is None and history is None:
            return other
        if node is None or history is None or history.output != unpacked.output_nr:
            continue
        if history.is_of(node):
            return other
    return saved


def _listed_result(saved: SavedTensor, node: Any) -> int | None:  # such as `_foreach_exp`'s, by its position
    history = None if saved.entry is None else saved.entry.history
    if node is None or history is None or not compat.graph.has_unnamed_saves(node):
        return None
    return history.output if history.is_of(node) else None


def _operation_in_copy_slices(saved: SavedTensor, node: Any) -> str | None:
    """Return the operation that wrote its result to a view and saved it: ``Exp`` for ``y[0].exp_()``.

    Its node is hidden in the base's, so the call identifies it, if that operation saves its result alone.
    """
    if saved.base is None or not saved.requires_grad or node is None:
        return None
    if not node.name().endswith("CopySlices") or not saved.stack:
        return None
    rules = by_operation(spelling.operation_at(saved.stack) or "")
    nodes = {rule.node for rule in rules if [kept.role for kept in rule.kept] == ["result"]}
    (only_node, *others) = nodes or {None}
    return None if only_node is None or others else _said_of(only_node)


def _view_is_followed(saved: SavedTensor, node: Any) -> bool:
    """Return whether the view's history at the time of the write is alive: in a graph or in the view."""
    entry = saved.entry
    if entry is not None and entry.history is not None:
        return entry.history.life() is not None
    call = backward_calls.current()
    graph = {} if call is None else call.of_engine.graph() or {}
    return any(
        edge is node and _forward_name(other) == "AsStrided" and compat.graph.is_view_of(other, saved.alias)
        for other in graph.values()
        for edge, _ in other.next_functions
    )


def _stands_for_view(tensor: torch.Tensor, saved: SavedTensor) -> bool:
    """Return whether torch made the tensor of what an unpack hook returned for a view, and a backward saved
    it again: it has the view's history and is no view. Only the Python core's saves hold one."""
    handed_on = engine.ran_below(saved.stack) and not tensor._is_view()
    return handed_on and _makes_view(compat.graph.grad_fn(tensor))


def _producer_of_dead(saved: SavedTensor, unpacked: torch.Tensor | None) -> str | None:
    """Return the producer of a tensor that is gone by now; torch would have kept the tensor and read its
    producer only now.

    torch rebuilds a view's history if the counter that it shares with its base has changed.
    """
    node = None if unpacked is None else compat.graph.grad_fn(unpacked)
    producer = _said(node)
    handed_on = engine.ran_below(saved.stack) and _makes_view(node)
    if saved.base is None and not handed_on:
        return producer
    if unpacked is None or producer is None:
        if unpacked is not None and saved.requires_grad:
            raise _AnotherError(f"A view was {compat.Sentence.NO_GRAD_VIEW}")
        # A leaf may itself be a view of a tensor without history (tests/unit/explain/test_sentence.py).
        base = None if saved.base is None else saved.base()
        follows = saved.requires_grad or (base is not None and base.requires_grad)
        return _said_of(_STRIDED) if follows else None
    first: Any = node
    while _makes_view(first):
        first = first.next_functions[0][0]
    refusal = _NOT_FOLLOWED.get(_forward_name(first))
    if refusal is not None:
        raise _AnotherError(f"Output {unpacked.output_nr} of {producer} {refusal}")
    if first is None:  # a view that has no history of its own, though its base has one
        made = f"Output {unpacked.output_nr} of {producer} is a view of a view which was"
        raise _AnotherError(f"{made} {compat.Sentence.NO_GRAD_VIEW}")
    return producer if _forward_name(node) in _NOT_STRIDES_ALONE else _said_of(_STRIDED)


_STRIDED = "AsStridedBackward0"  # the node of a view that torch rebuilds by its strides

_NOT_STRIDES_ALONE = ("Conj", "NegView", "ViewAsReal", "ViewAsComplex")
"""Views that torch rebuilds by their own operation; it rebuilds all others by their strides."""

_NOT_FOLLOWED: dict[str, str] = {
    **dict.fromkeys(("Split", "SplitWithSizes", "Unbind"), compat.Sentence.STALE_VIEW),
    compat.entries.MODULE_HOOK: compat.Sentence.STALE_FUNCTION_VIEW,
}
"""Operations whose views may not be followed once their base was written, and what torch says of one."""


def _makes_view(node: Any) -> bool:
    return SINGLE_VIEW.fullmatch(_forward_name(node)) is not None


def _said(node: Any) -> str | None:
    return None if node is None else _said_of(node.name())


def _said_of(name: str) -> str:  # `Exp` for `ExpBackward0`
    return _operation_of(name) if compat.behaviour.names_forward_operations else name


def _forward_name(node: Any) -> str:  # empty for None
    return "" if node is None else _operation_of(node.name())


def _operation_of(name: str) -> str:
    # As torch's `Node::forward_op_name` does (torch/csrc/autograd/node.cpp, since 2.13): `Pow1` for
    # `PowBackward1`
    match = re.fullmatch(r"(.*)Backward(\d*)", name)
    return name if match is None else match[1] + ("" if match[2] == "0" else match[2])


_TRANSLATED = re.compile(r"(Sparse)?(CPU|CUDA)(Byte|Char|Double|Float|Half|Int|Long|Short)Type")
"""The C++ names that torch turns into Python's in every message, even within a word (``processErrorMsg``,
torch/csrc/Exceptions.cpp)."""


def _type_and_sizes(tensor: torch.Tensor) -> str:
    """Return the tensor's type and sizes as torch's message writes them: ``torch.FloatTensor [2, 3]``."""
    with compat.dispatcher.no_torch_functions():
        layout, device = str(tensor.layout).removeprefix("torch."), tensor.device.type
        # C++ names dtypes as the old types do: `Half` of `torch.HalfTensor`.
        kind = torch.empty(0, dtype=tensor.dtype, device="cpu").type().rpartition(".")[2]
        sizes = ", ".join(str(size) for size in tensor.shape)
        quantized = "Quantized" if tensor.is_quantized else ""
    said = device if device == compat.tensors.outside_device() else _DEVICES.get(device, device.upper())
    name = f"{quantized}{_LAYOUTS.get(layout, '')}{said}{kind.removesuffix('Tensor')}Type"
    return f"{_TRANSLATED.sub(_in_python, name)} [{sizes}]"


def _in_python(match: re.Match[str]) -> str:
    sparse, device, kind = match.groups()
    return f"torch.{'cuda.' if device == 'CUDA' else ''}{'sparse.' if sparse else ''}{kind}Tensor"


_DEVICES = {"meta": "Meta", "vulkan": "Vulkan"}
_LAYOUTS = {
    **dict.fromkeys(("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"), "SparseCsr"),
    "sparse_coo": "Sparse",
    "_mkldnn": "Mkldnn",
}
"""C++ names of layouts' backends (c10/core/Backend.h)."""
