"""What a session answers when something was seen that autograd's own saves don't show."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch

from ..record import Fingerprint, Ledger, SavedTensor, Standing
from ..source import Stack


class Conflicts(Protocol):
    """The session's side. Methods that tell of something may raise ``InplaceError``."""

    ledger: Ledger

    @property
    def repairs(self) -> bool:
        """Whether code is to be given the values as they were."""

    def stale(self, saved: SavedTensor, held: Literal["ctx", "recompute"]) -> Standing | None:
        """How ``saved`` stands if its values are known to have changed, else None; ``held`` by whom."""

    def stale_on_ctx(self, standing: Standing, attribute: str, node: str) -> None:
        """``backward`` of a custom Function reads ``ctx.x`` that has changed."""

    def dirty_not_returned(
        self, error: RuntimeError, function: str, tensor: torch.Tensor | None, writes: list[Any], stack: Stack
    ) -> None:
        """torch refused a custom Function that marked a tensor dirty and returned another."""

    def unmarked_input(self, unmarked: Any) -> None:
        """A gradient comes through an input that a custom Function overwrote without ``mark_dirty``."""

    def gradient_written(self, gradient: torch.Tensor, writes: list[Any], node: Any) -> None:
        """A hook or a custom backward changed a gradient that another consumer is still to get."""

    def stale_in_recompute(self, standing: Standing, read: Stack) -> None:
        """A checkpoint's recomputation reads a tensor that has changed since its forward, at ``read``, of
        which only the frames below the checkpoint are given."""

    def content_changed(self, saved: SavedTensor, fingerprint: Fingerprint) -> None:
        """Backward needs a tensor whose content changed although no write to it was seen."""
