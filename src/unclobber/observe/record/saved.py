"""Save records: the objects that the pack hook hands to autograd in place of tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import torch

from ...source import Stack
from ...torch_internals import compat
from ...torch_internals.engine import engine
from ._fingerprint import Fingerprint
from ._undo import LogPosition, UndoLog
from ._write_event import WriteEvent


class SavedTensor:
    """The save record that autograd keeps in place of the tensor. It dies when autograd frees the node.

    Holds a ``detach()`` of the tensor, which shares memory and version counter, and the tensor itself if
    torch would: keeping an operation's own output would be a cycle through C++ that nothing can free.
    """

    __slots__ = (
        "__weakref__", "alias", "base", "copied", "entry", "fingerprint", "held", "itself", "origin",
        "requires_grad", "stack", "version",
    )  # fmt: skip

    # The pack hook calls `__new__` alone, because an `__init__` would cost as much as all its other work.
    alias: torch.Tensor
    itself: bool
    """Whether torch would keep the tensor itself, because it is a leaf or no output of the node that saves
    it. Of an output torch keeps another tensor, which ``.data =`` and ``detach_()`` do not reach."""
    held: torch.Tensor | None
    """The tensor itself if torch would keep it, to be handed to backward. Let go before its memory is written
    to or exchanged: an in-place operation may make it the output of a node that leads to this save."""
    version: int
    requires_grad: bool  # whether the tensor itself requires grad: the alias has no history
    origin: weakref.ref[torch.Tensor]
    """The tensor itself, for its name and its present grad_fn, and because ``.data =`` may swap a
    leaf's memory. Weak: an output is held by the node that saves it, and even a leaf can get a
    grad_fn by a later in-place operation; both would be cycles."""
    base: weakref.ref[torch.Tensor] | None
    """The tensor that the saved one is a view of: the weight of a Linear, whose transpose is saved."""
    stack: Stack
    copied: bytes | None
    """Its bytes, if code outside of torch can write to the memory at any time (``open_memory``)."""
    entry: LogEntry | None  # none until the storage is about to be written to: nothing has happened since
    fingerprint: Fingerprint | None
    """The content hash. Unset unless the session takes fingerprints and has chosen this save."""
    unchecked = False  # whether torch compares no version counters for it

    def is_again(self, other: SavedTensor) -> bool:  # of one tensor, which was not written to in between
        same = self.version == other.version and self.requires_grad == other.requires_grad
        return same and same_memory(self.alias, other.alias)


class UncheckedSave(SavedTensor):
    """A save record that other hooks keep: a checkpoint's, ``save_on_cpu``'s or the program's own."""

    __slots__ = ()
    unchecked = True


class StorageSwap(NamedTuple):
    """An exchange of the memory of a tensor that torch keeps itself: it reads the new one."""

    event: WriteEvent
    to: SavedTensor | None
    """A record of the new memory as it was then, observed like a save; None if the memory isn't known."""


class Log(Protocol):
    """Interface of ``StorageLog`` for save records, declared here because ``_storage`` imports this file."""

    serial: int  # number of writes seen so far
    bumps: int  # number of version counter bumps of those writes
    writes: list[WriteEvent]
    handed_out: Stack | None  # the last place, after a save, that handed the memory to code outside of torch

    def times(self, saved: SavedTensor) -> int:
        """Return how many versions of this storage the place of ``saved`` has saved; 1 if it isn't known."""

    def saves(self) -> Iterator[SavedTensor]:
        """Yield the live saves."""

    def forget(self, saved: SavedTensor) -> None:
        """Have one no more."""


class LogEntry:
    """The position of a save in the log of its storage, and what happened to the save since."""

    __slots__ = (
        "bumps", "detached", "differentiated", "given_back", "history", "log", "lost", "nth", "original",
        "position", "sealed", "since", "storage_swap", "undo_log", "unseen",
    )  # fmt: skip

    def __init__(self, log: Log | None, since: int, bumps: int, nth: int, unseen: bool) -> None:
        """Make the entry of a save that nothing has happened to yet."""
        self.log = log
        """The storage's log. None if the tensor has no storage: then only its version counter is known."""
        self.since = since  # number of writes that the log had recorded when the tensor was saved
        self.bumps = bumps  # number of version counter bumps of those writes
        self.nth = nth
        """1-based number of this version among the versions of the storage that the save's stack saved."""
        self.unseen = unseen  # whether the counter moved before any observed write
        self.given_back = False
        """Whether `storage.resize_` freed the values, so that the present content says nothing about them."""
        self.storage_swap: StorageSwap | None = None
        """The last ``.data =`` or ``set_`` that gave the saved tensor other memory."""
        self.detached: Stack | None = None
        """Stack of the ``detach_`` that removed the tensor's history, which another node had saved."""
        self.undo_log: UndoLog | None = None
        self.position: LogPosition | None = None  # position in the undo log at which the tensor was saved
        self.sealed: int | None = None  # version counter at the end of the session; None before that
        self.original: torch.Tensor | None = None
        """The tensor that torch would keep alive and show, if later operations may join its history."""
        self.differentiated = False
        """Whether a derivative of a further transform flows through the save, so that no old value can stand
        in for it."""
        self.lost: str | None = None
        """Sentence about the internal error that kept a write to the memory from being recorded."""
        self.history: History | None = None
        """Node and output that the tensor was, for callers that can't query the saving node."""

    @property
    def written(self) -> bool:
        return self.storage_swap is not None or self.log is None or self.log.serial != self.since


class RegisteredHooks(LogEntry):
    """The entry of a save that the program has given a pair of hooks of its own: they keep it from now on."""

    __slots__ = ("kept", "unpack")

    def __init__(self, kept: Any, unpack: Callable[[], torch.Tensor]) -> None:
        super().__init__(None, 0, 0, 1, False)
        self.kept = kept  # the result of the program's pack hook, perhaps with save records of its tensors
        self.unpack = unpack  # gives backward what the program's unpack hook makes of that


def fingerprint_of(saved: SavedTensor) -> Fingerprint | None:
    return getattr(saved, "fingerprint", None)  # unset where the session takes none


def leave_to(saved: SavedTensor, entry: RegisteredHooks) -> None:
    if saved.entry is not None and saved.entry.log is not None:
        saved.entry.log.forget(saved)
    saved.entry, saved.held, saved.copied, saved.fingerprint = entry, None, None, None
    saved.alias, saved.version = compat.kept.no_memory, compat.kept.no_memory._version


class Life(dict[Any, Any]):
    """Empty dict among a node's hooks, which dies with the node."""

    __slots__ = ("__weakref__",)


_lives: weakref.WeakValueDictionary[tuple[int, int], Life] = weakref.WeakValueDictionary()


def _life_of(node: Any) -> Life | None:
    return _lives.get(compat.graph.node_key(node))


class History(NamedTuple):
    """The node that made a tensor, before the tensor's first write, and the number of the node's output."""

    life: weakref.ref[Life]
    output: int

    @staticmethod
    def of(node: Any, output: int) -> History:
        life = _life_of(node)
        if life is None:
            life = _lives[compat.graph.node_key(node)] = Life()
            compat.graph.live_with(node, life)
        return History(weakref.ref(life), output)

    def is_of(self, node: Any) -> bool:
        life = self.life()
        return life is not None and life is _life_of(node)


def note_original(saved: SavedTensor, entry: LogEntry, target: torch.Tensor | None = None) -> None:
    """Keep the tensor that torch would keep in place of the alias, or the base of that tensor.

    If backward saves again a tensor that it unpacked, torch would have unpacked the tensor itself: that may
    be ``target``, which is about to be written, or the base of ``target``.

    Keep no leaf that requires grad and no view that does: their history is known without them. And keep
    no operation's own result, which would keep itself alive.
    """
    tensor = saved.origin()
    if target is not None and saved.requires_grad and engine.ran_below(saved.stack):
        itself = _handed_on(saved, target)
        edges = [(compat.graph.grad_fn(t), t.output_nr) for t in (tensor, itself) if t is not None]
        if itself is not None and edges[0] == edges[-1]:
            tensor = itself
            saved.origin = weakref.ref(itself)
    if not saved.requires_grad:
        # A transform's wrapper may be the result of the node that saves it (test_transforms_keep_nothing).
        if tensor is None or not tensor.requires_grad:
            entry.original = saved.base() if tensor is None and saved.base is not None else tensor
        return
    if tensor is None or saved.alias._version != saved.version:
        return
    node: Any = compat.graph.grad_fn(tensor)
    if node is None:
        return
    keeps = saved.base is None and not compat.graph.has_unnamed_saves(node)
    # If the node that made the tensor has saved it, the original would keep node and record alive.
    if keeps and any(kept is saved for _, kept in compat.kept.raw_saved(node)):
        return
    entry.history = History.of(node, tensor.output_nr)
    if keeps:
        entry.original = tensor


def _handed_on(saved: SavedTensor, target: torch.Tensor) -> torch.Tensor | None:
    """Return ``target`` or its base, if just one has the memory of ``saved``; None otherwise.

    Also None for an operation's own result, of which torch makes a new tensor at each unpack.
    """
    both = [tensor for tensor in (target, target._base) if tensor is not None and tensor.requires_grad]
    matching = [tensor for tensor in both if same_memory(tensor, saved.alias)]
    if saved.base is not None or len(matching) != 1:
        return None
    (tensor,) = matching
    node: Any = compat.graph.grad_fn(tensor)
    if node is None or tensor._version != saved.version:
        return None
    own = [kept for _, kept in compat.kept.raw_saved(node) if isinstance(kept, SavedTensor)]
    return None if any(same_memory(kept.alias, saved.alias) for kept in own) else tensor


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have the same elements of the same storage, in the same order."""
    return (
        compat.tensors.storage_key_or_none(a) == compat.tensors.storage_key_or_none(b)
        and a.storage_offset() == b.storage_offset()
        and a.stride() == b.stride()
        and a.shape == b.shape
        and a.dtype == b.dtype
    )
