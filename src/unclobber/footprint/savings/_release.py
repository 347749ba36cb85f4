"""Run a program in which some names give up what they hold, once it was read for the last time."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...source import frames
from ...torch_internals import compat
from .. import _places
from .._functions import name_of
from ..recorder import MemoryRecorder
from ._calls import Call, Site
from ._option import Release


class ReleaseMode(TorchFunctionMode):
    """Takes their memory, or their graphs, from tensors as if their names were gone.

    The tensors stay where they are, with nothing in them: a program that reads one after all computes
    something else or fails, and the change is not proved.

    Args:
        releases: Which tensors, told by the calls that made them.
        recorder: Is not to see what is made for it; None where nothing is recorded.
    """

    def __init__(self, releases: Iterable[Release], recorder: MemoryRecorder | None = None) -> None:
        super().__init__()
        self._recorder = recorder
        self._made: dict[Call, list[Release]] = {}
        self._after: dict[Call, list[Release]] = {}
        for one in releases:
            self._made.setdefault(one.made, []).append(one)
            self._after.setdefault(one.after, []).append(one)
        self._sites = {site for site, _ in (*self._made, *self._after)}
        self._names = {name for _, name in self._sites}
        self._counts: dict[Site, int] = {}
        self._tensors: dict[int, tuple[Release, list[weakref.ref[Tensor]]]] = {}
        """By storage."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        call = self._call(name_of(func))
        out = func(*args, **(kwargs or {}))
        results = [leaf for leaf in compat.tree_leaves(out) if isinstance(leaf, Tensor)]
        if call is not None and call in self._made:
            for tensor in results:
                key = compat.storage_key_or_none(tensor)
                if key is not None:
                    self._tensors[key] = (self._made[call][0], [])
        if self._tensors:
            for tensor in results:
                entry = self._tensors.get(compat.storage_key_or_none(tensor) or 0)
                if entry is not None:
                    entry[1].append(weakref.ref(tensor))
        if call is not None and call in self._after:
            self._give_up(self._after[call])
        return out

    def _call(self, name: str) -> Call | None:
        if name not in self._names:
            return None
        site = (_places.key(frames.of_program()), name)
        if site not in self._sites:
            return None
        self._counts[site] = self._counts.get(site, 0) + 1
        return site, self._counts[site]

    def _give_up(self, releases: Sequence[Release]) -> None:
        recorder = self._recorder
        quiet = recorder.hush(True) if recorder is not None else False
        try:
            with torch.no_grad():
                for key in [key for key, (one, _) in self._tensors.items() if one in releases]:
                    release, tensors = self._tensors.pop(key)
                    for tensor in [alive for one in tensors if (alive := one()) is not None]:
                        _emptied(tensor, graph=release.graph)
        finally:
            if recorder is not None:
                recorder.hush(quiet)


def _emptied(tensor: Tensor, *, graph: bool) -> None:
    if graph:
        tensor.detach_()
    else:
        tensor.data = tensor.new_empty(0)
