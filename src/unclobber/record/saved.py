"""One saved tensor, as the pack hook hands it to autograd."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch

from ..source import Stack, frames
from ..torch_internals import compat
from ._fingerprint import Fingerprint
from ._undo import LogPosition, UndoLog
from ._write_event import WriteEvent


class SavedTensor:
    """What autograd keeps in place of the tensor. It dies when autograd frees the node.

    Holds a ``detach()`` of the tensor, which shares memory and version counter, and the tensor itself where
    torch would: keeping an operation's own output would be a cycle through C++ that nothing can free.
    """

    __slots__ = (
        "__weakref__", "alias", "base", "entry", "fingerprint", "held", "origin", "requires_grad", "stack",
        "version",
    )  # fmt: skip

    # Made by the pack hook with ``__new__`` alone: an ``__init__`` would cost as much as all the rest.
    alias: torch.Tensor
    held: torch.Tensor | None
    """The tensor itself if it is no output of the node that saves it, so that backward is handed what torch
    would hand it. Let go before its memory is written to or exchanged: an in-place operation may make it the
    output of a node that leads to this save."""
    version: int
    requires_grad: bool
    """Of the tensor itself: the alias has no history."""
    origin: weakref.ref[torch.Tensor]
    """The tensor itself, for its name and its present grad_fn, and because ``.data =`` may swap a
    leaf's memory. Weak: an output is held by the node that saves it, and even a leaf can get a
    grad_fn by a later in-place operation; both would be cycles."""
    base: weakref.ref[torch.Tensor] | None
    """What it is a view of: the weight of a Linear, whose transpose is saved."""
    stack: Stack
    entry: LogEntry | None
    """None until the storage is about to be written to: nothing has happened since."""
    fingerprint: Fingerprint | None
    """Set only for those of a session with fingerprints that were chosen."""
    unchecked = False
    """Whether torch compares no version counters for it."""


class UncheckedSave(SavedTensor):
    """One that the hooks of a checkpoint, of ``save_on_cpu`` or of the program's own keep."""

    __slots__ = ()
    unchecked = True


class Swap(NamedTuple):
    """A saved tensor was given other memory: torch reads that, unless the operation saved its own result."""

    event: WriteEvent
    to: SavedTensor | None
    """The new memory as it was then, under observation like a save; None where it isn't known."""


class Log(Protocol):
    """What is asked of the log that a save stands in (``StorageLog``)."""

    serial: int
    """Number of writes seen so far."""
    bumps: int
    """How many of them move a version counter."""
    writes: list[WriteEvent]

    def times(self, saved: SavedTensor) -> int:
        """How many versions of this storage the stack of ``saved`` has saved."""

    def saves(self) -> Iterator[SavedTensor]:
        """The live ones."""

    def forget(self, saved: SavedTensor) -> None:
        """Have one no more."""


class LogEntry:
    """Where a save stands in the log of its storage."""

    __slots__ = (
        "bumps", "detached", "given_back", "history", "log", "lost", "nth", "original", "position", "sealed",
        "since", "swap", "undo_log", "unseen",
    )  # fmt: skip

    def __init__(self, log: Log | None, since: int, bumps: int, nth: int, unseen: bool) -> None:
        self.log = log
        """None where the tensor has no storage of its own: then only its version counter speaks."""
        self.since = since
        """Number of writes that the log had recorded when the tensor was saved."""
        self.bumps = bumps
        """How many of those moved a version counter."""
        self.nth = nth
        """Which of the versions of this storage saved by this very stack it is, from 1."""
        self.unseen = unseen
        """The counter moved before any write that we saw."""
        self.given_back = False
        """Whether `storage.resize_` freed the values; what the memory holds now says nothing about them."""
        self.swap: Swap | None = None
        """The last ``.data =`` or ``set_`` that gave the saved tensor other memory."""
        self.detached: Stack | None = None
        """Where ``detach_`` took the history of a tensor that another operation than its own saved."""
        self.undo_log: UndoLog | None = None
        self.position: LogPosition | None = None
        """Where in the undo log it was saved."""
        self.sealed: int | None = None
        """Version counter when the session ended, if it has ended."""
        self.original: torch.Tensor | None = None
        """What torch would keep alive and show, where later operations may become part of its history."""
        self.lost: str | None = None
        """The fault of ours that kept a write to its memory from being recorded, as a sentence."""
        self.history: History | None = None
        """Whose result it was, for those who can't ask the node that saved it."""

    @property
    def written(self) -> bool:
        """Whether its memory was written since, its tensor given other memory, or that is not known."""
        return self.swap is not None or self.log is None or self.log.serial != self.since


class RegisteredHooks(LogEntry):
    """The entry of a save that the program has given a pair of hooks of its own: they keep it from now on."""

    __slots__ = ("kept", "unpack")

    def __init__(self, kept: Any, unpack: Callable[[], torch.Tensor]) -> None:
        super().__init__(None, 0, 0, 1, False)
        self.kept = kept
        """What the program's pack hook has returned, perhaps with our records of it."""
        self.unpack = unpack
        """Gives backward what the program's unpack hook makes of that."""


def leave_to(saved: SavedTensor, entry: RegisteredHooks) -> None:
    """Let go of a saved tensor, and of its memory."""
    if saved.entry is not None and saved.entry.log is not None:
        saved.entry.log.forget(saved)
    saved.entry, saved.held, saved.fingerprint = entry, None, None
    saved.alias, saved.version = compat.no_memory, compat.no_memory._version


class Life(dict[Any, Any]):
    """Lies empty among a node's hooks, and dies with it."""

    __slots__ = ("__weakref__",)


_lives: weakref.WeakValueDictionary[tuple[int, int], Life] = weakref.WeakValueDictionary()


def life_of(node: Any) -> Life | None:
    """Return what dies with ``node``, if ``note_original`` has noted it."""
    return _lives.get(compat.node_key(node))


class History(NamedTuple):
    """The node at the beginning of a tensor's history before its first write, and which output it was."""

    life: weakref.ref[Life]
    output: int


def note_original(saved: SavedTensor, entry: LogEntry, target: torch.Tensor | None = None) -> None:
    """Keep the tensor that torch would keep in place of our alias, or what that is a view of.

    Where backward has saved again what it was handed, torch would have handed it the tensor itself: that may
    be ``target``, which is about to be written, or what that is a view of.

    Not of a leaf that requires grad, nor of a view that does: the history can be told without them. And not
    an operation's own result, which would be kept alive by itself.
    """
    tensor = saved.origin()
    if tensor is None and target is not None and saved.requires_grad and frames.ran_below(saved.stack):
        tensor = _handed_on(saved, target)
        if tensor is not None:
            saved.origin = weakref.ref(tensor)
    if not saved.requires_grad:
        entry.original = saved.base() if tensor is None and saved.base is not None else tensor
        return
    if tensor is None or saved.alias._version != saved.version:
        return
    node: Any = compat.grad_fn(tensor)
    if node is None:
        return
    keeps = saved.base is None and not compat.tells_nothing_saved(node)
    if keeps and any(kept is saved for _, kept in compat.raw_saved(node)):
        return
    life = life_of(node)
    if life is None:
        life = _lives[compat.node_key(node)] = Life()
        compat.live_with(node, life)
    entry.history = History(weakref.ref(life), tensor.output_nr)
    if keeps:
        entry.original = tensor


def _handed_on(saved: SavedTensor, target: torch.Tensor) -> torch.Tensor | None:
    """Which of ``target`` and its base ``saved`` is, by memory; None where it may be neither.

    An operation's own result is not: torch hands out a new tensor each time.
    """
    both = [one for one in (target, target._base) if one is not None and one.requires_grad]
    found = [one for one in both if same_memory(one, saved.alias)]
    if saved.base is not None or len(found) != 1:
        return None
    (tensor,) = found
    node: Any = compat.grad_fn(tensor)
    if node is None or tensor._version != saved.version:
        return None
    own = [kept for _, kept in compat.raw_saved(node) if isinstance(kept, SavedTensor)]
    return None if any(same_memory(kept.alias, saved.alias) for kept in own) else tensor


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same elements of the same storage, in the same order."""
    return (
        compat.storage_key_or_none(a) == compat.storage_key_or_none(b)
        and a.storage_offset() == b.storage_offset()
        and a.stride() == b.stride()
        and a.shape == b.shape
        and a.dtype == b.dtype
    )
