"""The interface by which the hooks hand a session what autograd's own saves don't show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import torch

from ...model import Variant
from ...source import Stack
from ..record import Ledger, SavedTensor, SaveState

Writes = Sequence[tuple[str, Stack]]  # the operation and the stack of each


class Conflicts(Protocol):
    """Interface of the session as the hooks use it; ``explain.occurrences`` describes each kind of conflict.

    Each method that receives a conflict raises InplaceError if the session refuses it.
    """

    ledger: Ledger

    @property
    def repairs(self) -> bool:
        """Return whether code must get the values as they were."""

    def stale(self, saved: SavedTensor, held: Literal["ctx", "recompute", "cache"]) -> SaveState | None:
        """Return the save state of ``saved`` if its values are known to have changed, or if they are in a
        cache whose version counters torch compares and that has moved; else None."""

    def stale_on_ctx(self, state: SaveState, attribute: str, node: str) -> None:
        """``backward`` of a custom Function reads ``ctx.x`` (``attribute``) that has changed."""

    def stale_in_recompute(self, state: SaveState, read: Stack) -> None:
        """A checkpoint's recomputation reads a tensor that has changed since its forward; ``read`` has only
        the frames below the checkpoint."""

    def stale_in_cache(self, state: SaveState, operation: str, error: RuntimeError | None) -> None:
        """A checkpoint's recomputation gets a changed tensor from selective checkpointing's cache.

        Args:
            operation: The operation whose result was cached.
            error: torch's refusal to hand it out; None if it goes on with the changed values.
        """

    def gradient_written(self, gradient: torch.Tensor, writes: Writes, node: Any) -> None:
        """A hook or a custom backward changed a gradient that another consumer is still to get.

        Args:
            node: The node that the gradient was passed to; None if the program knows of none.
        """

    def dirty_not_returned(self, error: RuntimeError, function: str, writes: Writes, stack: Stack) -> None:
        """torch refused a custom Function that marked a tensor dirty and returned another; ``stack`` is that
        of the call of ``apply``."""

    def input_overwritten(
        self,
        function: str,
        *,
        is_operator: bool,
        position: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        version: int,
        writes: Writes,
        stack: Stack,
        returned: bool,
    ) -> None:
        """A gradient comes through an input that a custom Function overwrote without ``mark_dirty``.

        Args:
            function: The Function's name, or that of the operator.
            is_operator: Whether torch made the Function, for a ``torch.library.custom_op`` with
                ``mutates_args``.
            position: The input's position among the arguments of ``apply``.
            version: Its version counter when the Function had run.
            stack: The stack of the call of ``apply``.
            returned: Whether ``forward`` returned it, as ``mark_dirty`` wants.
        """

    def content_changed(self, saved: SavedTensor) -> None:
        """Backward needs a tensor whose content changed although no write to it was seen."""

    def overwritten_in_backward(self, graph: Any) -> None:
        """A compiled backward will overwrite, and then read, what its graph saved (`OverwrittenInGraph`)."""

    def stale_copy(
        self, leaf: torch.Tensor, operation: str, stack: Stack, read: Stack, *, repaired: bool
    ) -> None:
        """Operations in an autocast region were given a copy of a leaf that is older than a write to it.

        Args:
            operation: The operation that wrote to it, at ``stack``.
            read: The stack of the first operation that got the copy, if it is known; else empty.
            repaired: Whether a new copy was made instead.
        """

    def harmful_operation(
        self, code: str, operation: str, stack: Stack, variant: Variant | None = None
    ) -> None:
        """An operation of the program's line does harm by itself, whatever backward unpacks.

        Args:
            code: The code whose rule judges it: `explain/rules/uc….py`, with the variant in the file's name.
        """
