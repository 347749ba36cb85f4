"""A program's modules, optimizers and schedulers, also those that die with the function that made them."""

from __future__ import annotations

import gc
from typing import Any

import torch

_MOST_BYTES = 512 * 2**20
"""Limit of parameters and buffers that are kept alive, in bytes; modules beyond it are not kept."""


class Living:
    """Collector of modules, optimizers and schedulers, which keeps them alive to the run's end."""

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}
        self._bytes = 0

    def look(self, nth: int) -> None:  # after the 1st, 2nd, 4th, 8th …, because a search takes time
        if nth & (nth - 1) == 0:
            self._take()

    def objects(self) -> list[Any]:
        self._take()
        return list(self._kept.values())

    def _take(self) -> None:
        """Keep the modules, optimizers and schedulers that the collector knows, up to the limit of bytes."""
        kinds = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
        for candidate in gc.get_objects():
            # `type`, because a class may lie about itself and a proxy runs code when its `__class__` is read
            if issubclass(type(candidate), kinds) and id(candidate) not in self._kept:
                of = [vars(candidate).get(name, {}) for name in ("_parameters", "_buffers")]
                tensors = (t for own in of for t in own.values() if isinstance(t, torch.Tensor))
                self._bytes += sum(t.nbytes for t in tensors if t.layout is torch.strided)
                if self._bytes > _MOST_BYTES:
                    return
                self._kept[id(candidate)] = candidate
