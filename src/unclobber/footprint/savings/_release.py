"""Runs in which some names give up their tensors after the last read."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import compat
from .._recorder import MemoryRecorder
from .._trace import Site, SiteCall, grouped
from ._option import Release
from ._sites import SitesMode


class ReleaseMode(SitesMode):
    """A mode that takes memory or graphs from tensors as if their names were gone.

    The tensors stay where they are, with nothing in them: a program that reads one after all computes
    something else or fails, and the change is not proved.

    Args:
        releases: The tensors, identified by the calls that made them.
        recorder: The recorder that must ignore this mode's operations; None if nothing is recorded.
    """

    def __init__(self, releases: Iterable[Release], recorder: MemoryRecorder | None = None) -> None:
        """Index the releases by the call that makes and the call that last reads the tensor."""
        every = tuple(releases)
        self._made = grouped(every, lambda release: release.made)
        self._after = grouped(every, lambda release: release.after)
        super().__init__((site for site, _ in (*self._made, *self._after)), recorder)
        self._counts: dict[Site, int] = {}
        self._tensors: dict[int, tuple[Release, list[weakref.ref[Tensor]]]] = {}
        """The tensors that share a released storage, by its key."""

    def called(self, site: Site | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call, collect tensors to release, and release those for which it is the last reader."""
        call = None if site is None else self._counted(site)
        out = func(*args, **kwargs)
        results = compat.compilers.tensors_in(out)
        if call is not None and call in self._made:
            for tensor in results:
                key = compat.tensors.storage_key_or_none(tensor)
                if key is not None:
                    self._tensors[key] = (self._made[call][0], [])
        if self._tensors:
            for tensor in results:
                entry = self._tensors.get(compat.tensors.storage_key_or_none(tensor) or 0)
                if entry is not None:
                    # Views, too, because each of them keeps the memory.
                    entry[1].append(weakref.ref(tensor))
        if call is not None and call in self._after:
            self._give_up(self._after[call])
        return out

    def _counted(self, site: Site) -> SiteCall:
        self._counts[site] = self._counts.get(site, 0) + 1
        return site, self._counts[site]

    def _give_up(self, releases: Sequence[Release]) -> None:
        with self.unseen(), torch.no_grad():
            for key in [key for key, (entry, _) in self._tensors.items() if entry in releases]:
                release, tensors = self._tensors.pop(key)
                for tensor in [alive for reference in tensors if (alive := reference()) is not None]:
                    _emptied(tensor, graph=release.graph)


def _emptied(tensor: Tensor, *, graph: bool) -> None:
    if graph:
        tensor.detach_()
    else:
        tensor.data = tensor.new_empty(0)
