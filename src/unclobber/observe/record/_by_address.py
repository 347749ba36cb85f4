"""Saved tensors found by the addresses of their bytes, because two storages may cover one memory.

``torch.from_numpy`` twice over one array, DLPack, ``frombuffer``, a mapped file: each call makes a storage of
its own over memory that torch has not allocated, with a version counter of its own. torch allocates no
memory twice, so at least one of two overlapping storages is always such a borrowed one.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ...torch_internals import compat
from ._extents import Extents
from ._region import region_of
from .saved import SavedTensor


class SavesByAddress:
    """Live saves of borrowed memory; of all memory once a program has written through a borrowed one."""

    def __init__(self) -> None:
        self.everything = False
        self._saves: Extents[SavedTensor] = Extents()

    def add(self, saved: SavedTensor) -> None:
        reach = _reach(saved.alias)
        if reach is not None:
            self._saves.add(*reach, saved)

    def take_everything(self, saves: Iterable[SavedTensor]) -> None:
        """Track memory that torch allocated as well, from now on.

        Rebuild the table from ``saves``, which must be all live saves.
        """
        self.everything = True
        self._saves = Extents()
        for saved in saves:
            self.add(saved)

    def elsewhere(self, tensor: torch.Tensor, key: int) -> dict[int, int]:
        """Return the other storages through which bytes of ``tensor`` are saved.

        Returns:
            By storage key, how many bytes after the start of that storage the one of ``tensor`` begins.
        """
        reach = _reach(tensor) if self._saves else None
        if reach is None:
            return {}
        lo, hi = reach
        shifts: dict[int, int] = {}
        for saved in self._saves.near(lo, hi):
            alias = saved.alias
            other = compat.tensors.storage_key_or_none(alias)
            # Addresses of two devices may be equal numbers without being one memory.
            if other is None or other == key or other in shifts or alias.device != tensor.device:
                continue
            # The entry's range may be stale: a `resize_` frees memory, and the allocator hands the address
            # out again (test_reused_addresses_are_no_match).
            now = _reach(alias)
            if now is not None and now[0] < hi and lo < now[1]:
                shifts[other] = tensor.untyped_storage().data_ptr() - alias.untyped_storage().data_ptr()
        return shifts


def _reach(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the half-open address range of a tensor's bytes, or None if it has no readable memory."""
    if tensor.is_meta or not compat.tensors.is_plain(tensor):
        return None
    region = region_of(tensor)
    storage = tensor.untyped_storage()
    if region is None or region.hi > storage.nbytes():
        return None
    start = storage.data_ptr()
    return (start + region.lo, start + region.hi) if start else None
