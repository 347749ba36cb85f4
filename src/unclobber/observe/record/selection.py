"""Selections: the elements that an index, mask or scatter write can change.

An ``index_put_`` of two rows into a table overwrites two rows: keeping those and the index is
cheaper than keeping the table. One entry of ``_SELECTORS`` describes one kind of operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...torch_internals import compat
from ._region import Region, region_of


class Selection:
    """The elements of a written tensor that an indexed write can change."""

    __slots__ = ("dim", "index", "nbytes")

    def __init__(self, index: tuple[Any, ...], dim: int | None = None) -> None:
        self.index = index
        """The index of ``tensor[index]``; with ``dim``, the index tensor of ``gather``/``scatter_`` alone."""
        self.dim = dim
        self.nbytes = sum(part.nbytes for part in index if isinstance(part, torch.Tensor))

    def take(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the raw values of the selected elements, without lazy bits.

        None if the index does not fit, or while a CUDA graph is captured, because a mask can't be counted
        then.
        """
        if compat.tensors.capturing(tensor):
            return None
        try:
            raw = compat.tensors.physical(tensor)
            return raw[self.index] if self.dim is None else raw.gather(self.dim, self.index[0])
        except (IndexError, RuntimeError):
            return None  # an index that does not fit: the operation itself raises

    def put(self, view: torch.Tensor, data: torch.Tensor) -> None:
        # An element that is selected twice gets the same value twice.
        if self.dim is None:
            view[self.index] = data
        else:
            view.scatter_(self.dim, self.index[0], data)

    def bounds(self, tensor: torch.Tensor) -> Region | None:
        """Return the smallest strided region that holds the selection; None if it selects nothing.

        The whole tensor's region unless the selection is one int64 index along one dimension on the CPU:
        reading an index on another device would wait for the device.
        """
        whole = region_of(tensor)
        *before, last = self.index
        if (
            self.dim is not None
            or not isinstance(last, torch.Tensor)
            or last.dtype is not torch.int64
            or tensor.device.type != "cpu"
            or any(isinstance(part, torch.Tensor) for part in before)
        ):
            return whole
        if last.numel() == 0:
            return None
        dim = len(before)
        if dim >= tensor.dim():
            return whole
        low, high = int(last.min()), int(last.max())
        if low < 0 or high >= tensor.size(dim):
            return whole  # negative indices wrap around, and the operation itself rejects the others
        return region_of(tensor.narrow(dim, low, high - low + 1))


def select(operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Selection | None:
    """Return the selection of an in-place operation on ``args[0]``, or None if it may write any element.

    Index tensors are copied, because the program may overwrite them before the value is needed
    (``test_index_reused_after_the_write``).
    """
    selector = _SELECTORS.get(operation)
    if selector is None:
        return None
    try:
        with compat.dispatcher.unseen_by_torch():
            return selector(args, kwargs)
    except (IndexError, RuntimeError):
        return None  # invalid arguments: the operation itself raises


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


def _by_indices(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Selection:
    parts = _argument(args, kwargs, 1, "indices")
    return Selection(tuple(slice(None) if part is None else part.clone() for part in parts))


def _by_dim_and_index(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Selection | None:
    target = args[0]
    if target.dim() == 0:
        return None
    dim = _argument(args, kwargs, 1, "dim") % target.dim()
    return Selection((*(slice(None),) * dim, _argument(args, kwargs, 2, "index").clone()))


def _by_mask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Selection | None:
    target, mask = args[0], _argument(args, kwargs, 1, "mask")
    # Expanded, because `masked_fill_` broadcasts the mask and indexing does not.
    return Selection((mask.expand_as(target).clone(),)) if mask.dim() <= target.dim() else None


def _by_rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Selection:
    return Selection((_argument(args, kwargs, 1, "indices").clone(),))


def _by_scatter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Selection | None:
    if args[0].dim() == 0:
        return None
    return Selection((_argument(args, kwargs, 2, "index").clone(),), dim=_argument(args, kwargs, 1, "dim"))


_SELECTORS: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Selection | None]] = {
    **dict.fromkeys(("index_put_", "_index_put_impl_", "_unsafe_index_put_"), _by_indices),
    **dict.fromkeys(("index_fill_", "index_copy_", "index_add_", "index_reduce_"), _by_dim_and_index),
    **dict.fromkeys(("masked_fill_", "masked_scatter_"), _by_mask),
    "embedding_renorm_": _by_rows,
    **dict.fromkeys(("scatter_", "scatter_add_", "scatter_reduce_"), _by_scatter),
}
