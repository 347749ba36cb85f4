"""In-place operations that read elements which they have overwritten themselves.

``u -= u[:, :1]`` and ``buf[:, 1:] = buf[:, :-1]`` read and write the same memory through two views.
torch refuses that only for dense tensors, whose overlap is quick to compute
(aten/src/ATen/MemoryOverlap.cpp, ``MemOverlapStatus::TooHard``). For others the result depends on the
order in which the kernel visits the elements. Torch itself decides whether it does: the operation is run
on a copy that overlaps in the same way, and on copies that don't.
"""

from __future__ import annotations

from typing import Any

import torch

from ...torch_internals import compat
from ._region import region_of
from .content import same_bits

LARGEST_COPY = 1 << 28  # bytes above which a tensor is not copied for a trial, because memory may be scarce

_RANDOM = frozenset(("bernoulli", "normal", "random"))


def overlaps_itself(
    operation: str, target: torch.Tensor, key: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Return whether the coming operation would give another result if it read its inputs first.

    Args:
        target: The tensor that it writes: its first argument, or ``out=``.
    """
    shared = [
        arg
        for arg in args
        if arg is not target
        and isinstance(arg, torch.Tensor)
        and compat.tensors.storage_key_or_none(arg) == key
        and _meets(arg, target)
    ]
    # Two runs of a random operation differ whatever they read.
    if not shared or operation.rstrip("_") in _RANDOM:
        return False
    if kwargs.get("out") is target:
        run = getattr(torch, operation, None)
    else:
        run = getattr(torch.Tensor, operation, None) if args[0] is target else None
    if run is None or compat.tensors.capturing(target):
        return False
    tensors = [target, *shared]
    with torch.no_grad(), compat.dispatcher.unseen_by_torch():
        together = _result(run, target, args, kwargs, _copies(tensors))
        # Copies with the strides of the originals, not `clone()`: only the overlap may differ, because torch
        # chooses kernels by strides.
        apart = _result(run, target, args, kwargs, {k: v for t in tensors for k, v in _copies([t]).items()})
        return together is not None and apart is not None and not same_bits(together, apart)


def _meets(arg: torch.Tensor, target: torch.Tensor) -> bool:
    """Return whether ``arg`` overlaps ``target`` without being the same elements in the same order."""
    if arg.dtype != target.dtype or not compat.tensors.is_plain(arg) or not compat.tensors.is_plain(target):
        return False
    # The copies share memory by `as_strided`, which would not carry lazy bits over.
    if any(compat.tensors.conj_neg_bits(arg)) or any(compat.tensors.conj_neg_bits(target)):
        return False
    read, written = region_of(arg), region_of(target)
    if read is None or written is None or arg.is_meta:
        return False
    if max(read.hi, written.hi) - min(read.lo, written.lo) > LARGEST_COPY:
        return False
    # If equal, element by element, as in `x += x`: no element is read after it was written.
    return read != written and read.overlaps(written)


def _copies(tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return copies of views of one storage, by the view's identity, that overlap as the views do."""
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
    """Run the operation on the copies. Return the copy of the target afterwards; None if torch refuses."""
    try:
        run(
            *(copies.get(id(arg), arg) for arg in args),
            **{k: copies.get(id(v), v) for k, v in kwargs.items()},
        )
    except (RuntimeError, TypeError, ValueError):
        return None
    return copies[id(target)]
