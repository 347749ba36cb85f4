"""Observation of a small run of an operation: its tensors, its backward nodes and their saved tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ..torch_internals import compat

memory_of = compat.tensors.storage_key_or_none
"""Return the identity of a tensor's memory; None if it has no strided memory."""


class PackedMemory:
    """The pack hook's result, which identifies a role's own tensor by its memory."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()


def packing() -> saved_tensors_hooks:
    """Return a context in which ``compat.kept.raw_saved`` yields ``PackedMemory``."""
    return saved_tensors_hooks(PackedMemory, compat.kept.recognizable(lambda kept: kept.tensor))


def nodes_of(outputs: Iterable[Tensor]) -> list[Any]:
    return list(compat.graph.nodes_below(map(compat.graph.renewed_grad_fn, outputs)))
