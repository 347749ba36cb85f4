"""Memory that code outside of torch can write to whenever it likes: a save of it carries a copy of its bytes.

That is what torch has not allocated (``torch.from_numpy``, ``frombuffer``, DLPack), and what an array of
NumPy's shows, for as long as the array lives (``.numpy()``, ``np.asarray``). No write there leaves a trace in
torch, so the bytes are compared when backward needs them.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ...source import Stack
from ...torch_internals import compat
from ._region import Region, region_of
from ._undo import Account, OldValues

LARGEST = 1 << 26
"""Size limit in bytes of a copy: a whole data set that a program keeps in an array is not doubled."""

on_shown: Callable[[int, bool], object] = lambda key, is_open: None  # noqa: E731  (replaced by the native core's)
"""Called when an array shows a storage, and when its last array has died."""
_shown: dict[int, dict[int, tuple[weakref.ref[Any], Stack]]] = {}
"""By storage key, the arrays that show memory of torch's, each with the line that made it, oldest first."""


def shown(tensor: torch.Tensor, array: Any, stack: Stack) -> None:
    """Note that ``array`` shows the memory of ``tensor``, which it keeps alive."""
    key = compat.tensors.storage_key_or_none(tensor)
    if key is not None:
        reference = weakref.ref(array, partial(_gone, key))
        _shown.setdefault(key, {})[id(reference)] = reference, stack
        on_shown(key, True)


def _gone(key: int, reference: weakref.ref[Any]) -> None:
    del _shown[key][id(reference)]
    if not _shown[key]:
        del _shown[key]
        on_shown(key, False)


def shown_at(tensor: torch.Tensor) -> Stack | None:
    """Return the line that made the last array over the memory of ``tensor``; None if there is none."""
    arrays = _shown.get(compat.tensors.storage_key(tensor))
    return None if arrays is None else next(reversed(arrays.values()))[1]


def is_borrowed(storage: torch.UntypedStorage) -> bool:  # a data loader's shared batches don't count
    return not storage.resizable() and storage.device.type == "cpu" and not storage.is_shared()


def bytes_of(tensor: torch.Tensor) -> bytes | None:
    """Return a copy of a plain tensor's bytes if its memory is open; with the gaps that its strides leave."""
    if tensor.layout is not torch.strided:
        return None
    storage = compat.tensors.storage_of(tensor)  # each save calls this: most end at the next check
    if storage._cdata not in _shown and (storage.resizable() or not is_borrowed(storage)):
        return None
    region = None if tensor.is_inference() else region_of(tensor)
    if region is None or not region.hi - region.lo <= LARGEST or region.hi > storage.nbytes():
        return None
    return _read(storage, region)


def _read(storage: torch.UntypedStorage, region: Region) -> bytes:
    return ctypes.string_at(storage.data_ptr() + region.lo, region.hi - region.lo)


def is_changed(tensor: torch.Tensor, copied: bytes) -> bool:
    """Return whether the bytes that ``bytes_of`` gave for ``tensor`` are others now."""
    region = region_of(tensor)
    return region is None or _read(compat.tensors.storage_of(tensor), region) != copied


def values_of(tensor: torch.Tensor, copied: bytes, account: Account) -> OldValues:
    region = region_of(tensor)
    assert region is not None  # else there are no bytes
    memory = torch.frombuffer(bytearray(copied), dtype=compat.tensors.physical(tensor).dtype)
    whole = memory.as_strided(region.sizes, region.strides)
    return OldValues(account, region, whole.dtype, whole, full=True)
