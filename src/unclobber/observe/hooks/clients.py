"""The clients of the installation: objects that are notified of writes and of changes of memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch

from ..record import Ledger, SavedTensor
from .kernels import Listener


class Client(Listener, Protocol):
    """A ledger, or the keeper of frozen tensors."""

    def before_storage_swap(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Note that ``.data =`` is about to give ``tensor`` the memory of ``new``."""

    def after_detach(self, tensor: torch.Tensor) -> None:
        """Note that ``detach_()`` has dropped the node that had made ``tensor``."""

    def before_shrink(self, storage: torch.UntypedStorage, size: int) -> None:
        """Note that ``storage`` is about to lose its memory beyond the first ``size`` bytes."""

    def before_replay(self) -> None:
        """Note that a CUDA graph is about to be replayed, which writes memory past every operation."""

    def before_hand_out(self, tensor: torch.Tensor, address: bool = False) -> None:
        """Note that ``tensor`` is about to give its memory to code outside of torch."""

    def before_export(self, tensor: torch.Tensor) -> None:
        """Note that ``tensor`` is about to do so through DLPack."""

    def anything_alive(self) -> bool:
        """Return whether any save is alive."""

    def saves(self, *, queued: bool = True) -> Iterable[SavedTensor]:
        """Return all live saves; without those in the queue unless ``queued``."""


class Clients:
    """All clients, and their common answers."""

    def __init__(self) -> None:
        # A tuple, so that a hook in another thread iterates over a whole one while this thread replaces it.
        self.now: tuple[Client, ...] = ()

    def anything_alive(self) -> bool:
        return any(client.anything_alive() for client in self.now)

    def saves(self, *, queued: bool = True) -> list[SavedTensor]:
        return [saved for client in self.now for saved in client.saves(queued=queued)]

    def can_pause_observation(self) -> bool | str | None:
        """Return the only queue's answer to whether backward may run unobserved (``SaveQueue``).

        None if several clients are installed, or if the only one is no ledger.
        """
        only = self.now[0] if len(self.now) == 1 else None
        return only.pending.can_pause_observation() if isinstance(only, Ledger) else None
