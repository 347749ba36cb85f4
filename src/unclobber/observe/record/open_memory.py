"""Memory that code outside of torch can write to whenever it likes: a save of it carries a copy of its bytes.

That is what torch has not allocated (``torch.from_numpy``, ``frombuffer``, DLPack), and what an array of
NumPy's shows, for as long as the array lives (``.numpy()``, ``np.asarray``). No write there leaves a trace in
torch, so the bytes are compared when backward needs them.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ...source import Stack
from ...torch_internals import compat
from ._region import Region, region_of
from ._undo import Account, OldValues

LARGEST = 1 << 26
"""Size limit in bytes of a copy: a whole data set that a program keeps in an array is not doubled."""

on_shown: Callable[[int, bool], object] = lambda key, is_open: None  # noqa: E731  (replaced by the native core's)
"""Called when a storage is shown by its first array, and when its last array has died."""
_arrays: dict[int, tuple[weakref.ref[Any], int]] = {}
"""The arrays that show memory of torch's, each with its storage key, by the identity of the reference."""
_shown: dict[int, tuple[int, Stack]] = {}
"""By storage key, how many arrays show it, and the line that made the last one."""


def shown(tensor: torch.Tensor, array: Any, stack: Stack) -> None:
    """Note that ``array`` shows the memory of ``tensor``, which it keeps alive."""
    key = compat.tensors.storage_key_or_none(tensor)
    if key is None:
        return
    reference = weakref.ref(array, _gone)
    _arrays[id(reference)] = (reference, key)
    count, _ = _shown.get(key, (0, stack))
    _shown[key] = (count + 1, stack)
    if not count:
        on_shown(key, True)


def _gone(reference: weakref.ref[Any]) -> None:
    _, key = _arrays.pop(id(reference))
    count, stack = _shown.pop(key)
    if count > 1:
        _shown[key] = (count - 1, stack)
    else:
        on_shown(key, False)


def shown_at(tensor: torch.Tensor) -> Stack | None:
    known = _shown.get(compat.tensors.storage_key(tensor))
    return None if known is None else known[1]


def is_borrowed(storage: torch.UntypedStorage) -> bool:  # a data loader's shared batches don't count
    return not storage.resizable() and storage.device.type == "cpu" and not storage.is_shared()


def bytes_of(tensor: torch.Tensor) -> bytes | None:
    """Return a copy of a plain tensor's bytes if its memory is open; with the gaps that its strides leave."""
    if tensor.layout is not torch.strided or tensor.is_inference():
        return None
    storage = tensor.untyped_storage()
    if not is_borrowed(storage) and storage._cdata not in _shown:
        return None
    region = region_of(tensor)
    if region is None or not region.hi - region.lo <= LARGEST or region.hi > storage.nbytes():
        return None
    return _read(storage, region)


def _read(storage: torch.UntypedStorage, region: Region) -> bytes:
    return ctypes.string_at(storage.data_ptr() + region.lo, region.hi - region.lo)


def is_changed(tensor: torch.Tensor, copied: bytes) -> bool:
    """Return whether the bytes that ``bytes_of`` gave for ``tensor`` are others now."""
    region = region_of(tensor)
    return region is None or _read(tensor.untyped_storage(), region) != copied


def values_of(tensor: torch.Tensor, copied: bytes, account: Account) -> OldValues:
    region = region_of(tensor)
    assert region is not None  # else there are no bytes
    memory = torch.frombuffer(bytearray(copied), dtype=compat.tensors.physical(tensor).dtype)
    whole = memory.as_strided(region.sizes, region.strides)
    return OldValues(account, region, whole.dtype, whole, full=True)
