"""Facts that autograd's own saves don't show, as the hooks hand them to a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from ...model import Variant
from ...source import Stack
from ..record import Fingerprint, Ledger, SavedTensor, SaveState
from .write_log import FollowedWrite


class Conflict:
    """Facts of one conflict. ``explain.occurrences`` has the maker of each kind."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StaleOnCtx(Conflict):
    """``backward`` of a custom Function reads ``ctx.x`` that has changed."""

    state: SaveState
    attribute: str  # `ctx.x`
    node: str


@dataclass(frozen=True, slots=True)
class StaleInRecompute(Conflict):
    """A checkpoint's recomputation reads a tensor that has changed since its forward."""

    state: SaveState
    read: Stack = ()  # stack of the read; only the frames below the checkpoint
    cached: str | None = None
    """The operation whose result selective checkpointing cached; None if the code itself reads the tensor."""
    error: RuntimeError | None = None
    """torch's refusal to hand out what was cached; None if it goes on with the changed values."""


@dataclass(frozen=True, slots=True)
class GradientWritten(Conflict):
    """A hook or a custom backward changed a gradient that another consumer is still to get."""

    gradient: torch.Tensor
    writes: list[FollowedWrite]
    node: Any  # the node that the gradient was passed to; None if the program knows of none


@dataclass(frozen=True, slots=True)
class DirtyNotReturned(Conflict):
    """torch refused a custom Function that marked a tensor dirty and returned another."""

    error: RuntimeError
    function: str
    writes: list[FollowedWrite]
    stack: Stack  # stack of the call of `apply`


@dataclass(frozen=True, slots=True)
class InputOverwritten(Conflict):
    """A gradient comes through an input that a custom Function overwrote without ``mark_dirty``."""

    function: str  # the Function's name, or that of the operator
    is_operator: bool  # whether torch made the Function, for a `torch.library.custom_op` with `mutates_args`
    position: int  # position of the input among the arguments of `apply`
    shape: tuple[int, ...]
    dtype: torch.dtype
    version: int  # its version counter when the Function had run
    writes: list[FollowedWrite]
    stack: Stack  # stack of the call of `apply`
    returned: bool  # whether `forward` returned it, as `mark_dirty` wants


@dataclass(frozen=True, slots=True)
class ContentChanged(Conflict):
    """Backward needs a tensor whose content changed although no write to it was seen."""

    saved: SavedTensor
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class StaleCopy(Conflict):
    """Operations in an autocast region were given a copy of a leaf that is older than a write to it."""

    leaf: torch.Tensor
    operation: str  # the operation that wrote to it
    stack: Stack  # stack of the write
    read: Stack  # stack of the first such operation that is known; empty if none is
    repaired: bool  # whether a new copy was made instead


@dataclass(frozen=True, slots=True)
class HarmfulOperation(Conflict):
    """An operation of the program's line does harm by itself, whatever backward unpacks."""

    code: str  # the code whose rule judges it: `explain/rules/uc….py`, with the variant in the file's name
    operation: str
    stack: Stack
    variant: Variant | None = None


class Conflicts(Protocol):
    """Interface of the session as the hooks use it."""

    ledger: Ledger

    @property
    def repairs(self) -> bool:
        """Return whether code must get the values as they were."""

    def stale(self, saved: SavedTensor, held: Literal["ctx", "recompute", "cache"]) -> SaveState | None:
        """Return the save state of ``saved`` if its values are known to have changed, or if they are in a
        cache whose version counters torch compares and that has moved; else None."""

    def on(self, conflict: Conflict) -> None:
        """Receive a conflict that was seen; InplaceError if the session refuses it."""
