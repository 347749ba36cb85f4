"""In-place operations that read elements which they have overwritten themselves.

``u -= u[:, :1]`` and ``buf[:, 1:] = buf[:, :-1]`` read and write the same memory through two views.
torch refuses that where it is quick to tell, which is for dense tensors only
(aten/src/ATen/MemoryOverlap.cpp, ``MemOverlapStatus::TooHard``); elsewhere the result depends on the
order in which the kernel visits the elements. Whether it does is asked of torch: the operation is run
on a copy that overlaps in the same way, and on copies that don't.
"""

from __future__ import annotations

from typing import Any

import torch

from ..torch_internals import compat
from . import _streams
from ._region import overlap, region_of
from .content import same_bits

LARGEST_COPY = 1 << 28
"""Bytes of a tensor above which nothing is tried out on copies: memory may be scarce."""

_RANDOM = frozenset(("bernoulli", "normal", "random"))


def overlaps_itself(
    operation: str, target: torch.Tensor, key: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether the operation that is about to run gives another result than if it read its inputs first.

    Args:
        operation: ATen name without overload.
        target: The tensor that it writes: its first argument, or ``out=``.
        key: The storage of ``target``.
        args: Its arguments.
        kwargs: Its keyword arguments.
    """
    shared = [
        arg
        for arg in args
        if arg is not target
        and isinstance(arg, torch.Tensor)
        and compat.storage_address(arg) == key
        and _meets(arg, target)
    ]
    if not shared or operation.rstrip("_") in _RANDOM:
        return False
    if kwargs.get("out") is target:
        run = getattr(torch, operation, None)
    else:
        run = getattr(torch.Tensor, operation, None) if args[0] is target else None
    if run is None or _streams.capturing(target):
        return False
    tensors = [target, *shared]
    with torch.no_grad(), compat.unseen_by_torch():
        together = _result(run, target, args, kwargs, _copies(tensors))
        # each alone, with strides as they are: what differs is the overlap, not the way of the kernel
        apart = _result(run, target, args, kwargs, {k: v for t in tensors for k, v in _copies([t]).items()})
        return together is not None and apart is not None and not same_bits(together, apart)


def _meets(arg: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether ``arg`` reads memory of ``target`` otherwise than element by element."""
    if arg.dtype != target.dtype or not compat.is_plain(arg) or not compat.is_plain(target):
        return False
    if compat.conj_neg_bits(arg) != (False, False) or compat.conj_neg_bits(target) != (False, False):
        return False
    read, written = region_of(arg), region_of(target)
    if read is None or written is None or arg.is_meta:
        return False
    if max(read.hi, written.hi) - min(read.lo, written.lo) > LARGEST_COPY:
        return False
    if read == written:
        return False
    return overlap(read, written)


def _copies(tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Copies of views of one storage by their identity, which share their memory as those do."""
    regions = [region for region in map(region_of, tensors) if region is not None]
    item = tensors[0].itemsize
    first = min(region.lo for region in regions) // item
    end = max(region.hi for region in regions) // item
    memory = tensors[0].as_strided((end - first,), (1,), first).clone()
    return {
        id(tensor): memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset() - first)
        for tensor in tensors
    }


def _result(
    run: Any,
    target: torch.Tensor,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    copies: dict[int, torch.Tensor],
) -> torch.Tensor | None:
    """What the target holds afterwards; None where torch refuses."""
    try:
        run(
            *(copies.get(id(arg), arg) for arg in args),
            **{k: copies.get(id(v), v) for k, v in kwargs.items()},
        )
    except (RuntimeError, TypeError, ValueError):
        return None
    return copies[id(target)]
