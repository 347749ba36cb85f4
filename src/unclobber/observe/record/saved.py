"""Save records: the objects that the pack hook hands to autograd in place of tensors.

Those of one storage share a log: its live saves, the writes to it, and the undo logs of overwritten values.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ...source import Stack, user_frame
from ...torch_internals import compat
from ...torch_internals.engine import engine
from ._extents import Extents
from ._fingerprint import Fingerprint
from ._region import Region, region_of
from ._undo import Account, LogPosition, OldValues, UndoLog, keep
from ._write_event import WriteEvent, folded, identity
from .selection import Selection

_FIRST_PRUNE = 64
_LONGEST_LOG = 256


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


@dataclass(slots=True, eq=False)
class LogEntry:
    """The position of a save in the log of its storage, and what happened to the save since."""

    log: StorageLog | None = None
    """The storage's log. None if the tensor has no storage: then only its version counter is known."""
    since: int = 0  # number of writes that the log had recorded when the tensor was saved
    bumps: int = 0  # number of version counter bumps of those writes
    nth: int = 1
    """1-based number of this version among the versions of the storage that the save's stack saved."""
    unseen: bool = False  # whether the counter moved before any observed write
    given_back: bool = False
    """Whether `storage.resize_` freed the values, so that the present content says nothing about them."""
    storage_swap: StorageSwap | None = None
    """The last ``.data =`` or ``set_`` that gave the saved tensor other memory."""
    detached: Stack | None = None
    """Stack of the ``detach_`` that removed the tensor's history, which another node had saved."""
    undo_log: UndoLog | None = None
    position: LogPosition | None = None  # position in the undo log at which the tensor was saved
    sealed: int | None = None  # version counter at the end of the session; None before that
    original: torch.Tensor | None = None
    """The tensor that torch would keep alive and show, if later operations may join its history."""
    differentiated: bool = False
    """Whether a derivative of a further transform flows through the save, so that no old value can stand
    in for it."""
    lost: str | None = None
    """Sentence about the internal error that kept a write to the memory from being recorded."""
    history: History | None = None
    """Node and output that the tensor was, for callers that can't query the saving node."""

    @property
    def written(self) -> bool:
        return self.storage_swap is not None or self.log is None or self.log.serial != self.since


class RegisteredHooks(LogEntry):
    """The entry of a save that the program has given a pair of hooks of its own: they keep it from now on."""

    __slots__ = ("kept", "unpack")

    def __init__(self, kept: Any, unpack: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self.kept = kept  # the result of the program's pack hook, perhaps with save records of its tensors
        self.unpack = unpack  # gives backward what the program's unpack hook makes of that


class StorageLog:
    """Saves and writes of one storage. Only its saves keep it alive."""

    __slots__ = (
        "__weakref__", "_by_extent", "_log_limit", "_saves", "_saves_limit", "_times", "_undo_logs",
        "bumps", "handed_out", "serial", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        """Make the log of a storage without saves and writes."""
        self.serial = 0  # number of writes seen so far
        self.bumps = 0  # number of version counter bumps of those writes
        self.writes: list[WriteEvent] = []
        self.handed_out: Stack | None = None
        """The last place, after a save, that handed the memory to code outside of torch."""
        self._log_limit = _LONGEST_LOG
        self._saves: list[weakref.ref[SavedTensor]] = []
        self._saves_limit = _FIRST_PRUNE
        self._times: dict[Any, tuple[int, int, Stack]] = {}
        """By a stack's ``_identity``: how often it ran, the serial of its last run, and the stack itself."""
        self._undo_logs: weakref.WeakValueDictionary[Any, UndoLog] = weakref.WeakValueDictionary()
        self._by_extent: Extents[UndoLog] = Extents()

    def add(self, saved: SavedTensor, moved: bool | None = None) -> LogEntry:
        """Enter a save. Return its entry. The storage must not have been written since it was made.

        ``moved``: whether its counter had moved before the next write, if that has run already.
        """
        nth = self.count_run(saved.stack)
        # A bump before the first observed write is one that no kernel saw.
        moved = saved.alias._version != saved.version if moved is None else moved
        entry = saved.entry = LogEntry(self, self.serial, self.bumps, nth, moved)
        self._saves.append(weakref.ref(saved))
        if len(self._saves) > self._saves_limit:
            self._saves = [ref for ref in self._saves if ref() is not None]
            self._saves_limit = 2 * len(self._saves) + _FIRST_PRUNE
        if not saved.alias.is_meta:
            self._open_undo_log(saved.alias, entry)
        return entry

    def count_run(self, stack: Stack) -> int:
        """Count that ``stack`` saves the present version; return how many versions it has saved."""
        # Saves of one stack between the same two writes count as one run of the line: an operation may save a
        # tensor twice.
        ran = identity(stack)
        times, at, _ = self._times.get(ran, (0, -1, ()))
        nth = times if at == self.serial else times + 1
        self._times[ran] = (nth, self.serial, stack)
        return nth

    def times(self, saved: SavedTensor) -> int:  # 1 if it isn't known
        place = user_frame(saved.stack)
        counts = [times for times, _, stack in self._times.values() if user_frame(stack) == place]
        # By several calls of one function, each has a count of its own, and no order is known.
        return counts[0] if len(counts) == 1 else 1

    def saves(self) -> Iterator[SavedTensor]:
        for ref in self._saves:
            saved = ref()
            if saved is not None:
                yield saved

    def forget(self, saved: SavedTensor) -> None:
        self._saves = [ref for ref in self._saves if ref() is not saved]

    def counter(self) -> int | None:
        for ref in reversed(self._saves):
            saved = ref()
            if saved is not None:
                return None if saved.alias.is_inference() else saved.alias._version
        return None

    def note(self, event: WriteEvent) -> None:
        """Enter a write that is about to happen. Fold the log if it has grown too long."""
        event.last = self.serial
        self.serial += 1
        self.bumps += event.bumps
        self.writes.append(event)
        if len(self.writes) > self._log_limit:
            # Folded, not cut: a loop that writes for ever must keep the lines of the writes that a save saw
            # (test_a_span_that_reaches_a_live_save_stays).
            oldest = min((saved.entry.since for saved in self.saves() if saved.entry), default=self.serial)
            self.writes = folded(self.writes, oldest)
            self._log_limit = 2 * len(self.writes) + _LONGEST_LOG

    def settle(self, bumps: int, *, by_last_write: bool = False) -> None:
        """Set the total of bumps after an operation whose number of bumps wasn't known beforehand."""
        if by_last_write and self.writes and bumps > self.bumps:
            self.writes[-1].bumps += bumps - self.bumps
        self.bumps = bumps

    def lose(self, size: int) -> None:
        """Forget values of saves beyond the first ``size`` bytes, which are about to be freed."""
        for saved in self.saves():
            entry = saved.entry
            if entry is None or entry.undo_log is None or entry.position is None:
                continue
            # A full copy outlives the memory: test_kept_before_the_memory_was_given_back.
            if entry.undo_log.region.hi <= size or entry.position.is_kept():
                continue
            entry.undo_log = entry.position = None
            entry.unseen = entry.given_back = True

    def preserve(
        self,
        account: Account,
        target: Any,
        region: Region,
        selection: Selection | None = None,
        shift: int = 0,
        copied: bool = False,
    ) -> None:
        """Keep what a write to ``target`` is about to destroy and live saves still hold.

        Copies the smaller of the overwritten elements and the overlapped saves.

        Args:
            selection: The elements of ``target`` that the write can change; None: all.
            shift: Bytes from the start of this storage to the start of ``target``'s storage, if that is
                another storage over the same memory.
            copied: Whether the write has run, and ``target`` is the copy that the native core made before.
        """
        # Entering this context costs as much as all else of a write that hits no save.
        if selection is None and not self._hit(region):
            return
        with compat.dispatcher.unseen_by_torch():
            if selection is not None:
                bounds = selection.bounds(target)
                undo_logs = [] if bounds is None else self._hit(bounds.moved(shift))
            else:
                undo_logs = self._hit(region)
            if not undo_logs or (copied and all(undo_log.knows(region) for undo_log in undo_logs)):
                return  # the native core makes no copy of what is recorded
            if not copied and region.hi - shift > target.untyped_storage().nbytes():
                return  # the storage was shrunk behind the tensor: reading it would leave its memory
            if not target.is_cpu and (stream := compat.tensors.current_stream(target)) is not None:
                for undo_log in undo_logs:
                    undo_log.streams.add(stream)
            data = None
            nbytes = region.nbytes
            if selection is not None:
                data = selection.take(target)
                if data is not None and data.nbytes + selection.nbytes < nbytes:
                    nbytes = data.nbytes + selection.nbytes
                else:
                    selection = data = None
            # Elements that straddle this storage's elements can't be put back one by one
            # (test_elements_across_each_other), so the whole save is copied.
            whole_is_smaller = (
                shift % region.itemsize or sum(undo_log.region.nbytes for undo_log in undo_logs) <= nbytes
            )
            record: OldValues | None = None
            for undo_log in undo_logs:
                if undo_log.knows(region if selection is None else undo_log.region):
                    continue
                if (
                    whole_is_smaller
                    or undo_log.whole_only
                    or undo_log.recorded_bytes + nbytes > undo_log.region.nbytes
                ):
                    place, source = undo_log.region, undo_log.alias
                    if copied:  # of the same memory, perhaps as its transpose
                        source = target if place == region else target.as_strided(place.sizes, place.strides)
                    assert source is not None  # `_hit` gives open undo logs only
                    whole = keep(compat.tensors.physical(source))
                    undo_log.append(OldValues(account, place, undo_log.dtype, whole, full=True))
                else:
                    if record is None:  # one copy for all undo logs: test_one_copy_for_many_saves
                        old = keep(compat.tensors.physical(target) if data is None else data)
                        record = OldValues(account, region, target.dtype, old, selection)
                    undo_log.append(record)

    def _open_undo_log(self, alias: torch.Tensor, entry: LogEntry) -> None:
        """Give ``entry`` its position in the undo log of the alias's geometry. None if it has no elements."""
        region = region_of(alias)
        if region is None:
            return
        # Lazy conj and neg bits, too: equal memory then means other values (test_lazy_bits).
        key = (region, alias.dtype, compat.tensors.conj_neg_bits(alias))
        undo_log = self._undo_logs.get(key)
        if undo_log is None:
            undo_log = self._undo_logs[key] = UndoLog(alias, region)
            self._by_extent.add(region.lo, region.hi, undo_log)
        entry.undo_log, entry.position = undo_log, undo_log.open(alias)

    def _hit(self, region: Region) -> list[UndoLog]:
        near = self._by_extent.near(region.lo, region.hi)
        return [
            undo_log for undo_log in near if undo_log.alias is not None and undo_log.region.overlaps(region)
        ]


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
    node: Any = None if tensor is None else compat.graph.grad_fn(tensor)
    keeps = node is None or not compat.graph.has_unnamed_saves(node)
    # If the node that made the tensor has saved it, the original would keep node and record alive. What a
    # transform's hook packs begins with the record (test_transforms_keep_nothing).
    packed = compat.kept.raw_saved(node) if keeps and node is not None else ()
    is_result = any(kept is saved or (type(kept) is tuple and kept[0] is saved) for _, kept in packed)
    if not saved.requires_grad:
        if keeps and not is_result:
            entry.original = saved.base() if tensor is None and saved.base is not None else tensor
        return
    if tensor is None or node is None or saved.alias._version != saved.version:
        return
    keeps = keeps and saved.base is None
    if keeps and is_result:
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
