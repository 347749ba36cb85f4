"""The ledger of one session: saves as they are packed, writes as they happen.

The two entries that run at every save and at every write are ``pending.append`` and
``before_write``. A save is only put on a queue. It is entered in its storage's log when
the next write anywhere is about to happen. Most saves are dead by then (backward freed them),
so a training loop whose writes come after backward files nothing at all.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ...model import Reached, or_default
from ...source import Stack, of_program
from ...torch_internals import compat
from . import open_memory, running
from ._by_address import SavesByAddress
from ._fingerprint import ProgramPoint
from ._queue import PythonQueue, SaveQueue, newest_operations_stack
from ._region import region_at, region_of
from ._shared_counters import SharedCounters
from ._unverified import SharedInput, UnverifiedCall
from ._view_writes import ViewWrites, concerns
from ._write_event import WriteEvent
from .content import in_storage, same_bits
from .fingerprints import Fingerprints
from .saved import (
    History,
    LogEntry,
    SavedTensor,
    StorageLog,
    StorageSwap,
    fingerprint_of,
    note_original,
    same_memory,
)
from .saved_bytes import SavedBytes
from .selection import select
from .self_overlap import LARGEST_COPY, overlaps_itself

_FIRST_PRUNE = 4096
_FEW = 32  # number of a storage's saves up to which a write is compared with each

METADATA_ONLY = frozenset({
    "set_", "set_data", "resize_", "resize_as_", "resize_as_sparse_", "_resize_output_", "t_",
    "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_", "detach_",
    "rename_", "_coalesced_", "sparse_resize_", "sparse_resize_and_clear_",
})  # fmt: skip
"""Operations that torch counts as writes but that change no element of the old memory."""


class _Announced(threading.local):
    """The memory whose write by compiled code that runs in this thread was noted before: its own operations
    are parts of that."""

    keys: Container[int] = ()


announced = _Announced()


@dataclass(frozen=True, slots=True)
class SaveState:
    """The save state: what is known of a save record when backward unpacks it."""

    saved: SavedTensor
    version: int  # version counter now
    unseen: bool  # whether the counter moved more often than by the observed writes
    value: torch.Tensor | None
    """The saved value, rebuilt from undo records. None if no element was overwritten, or if it is unknown."""
    changed: bool
    """Whether any saved element differs now, bit for bit. False if unknown, except that every write counts
    as a change while a CUDA graph is captured."""
    storage_swapped: bool
    """Whether it changed because ``.data =`` or ``set_`` gave the tensor memory with other values."""
    now: torch.Tensor  # the tensor that torch would read

    @property
    def before(self) -> torch.Tensor:  # the saved value as far as it is known
        return self.saved.alias if self.value is None else self.value

    @property
    def moved(self) -> bool:
        return self.version != self.saved.version

    @property
    def refused(self) -> bool:
        return self.moved and not self.saved.unchecked  # torch never refuses a tensor that other hooks keep


class Ledger:
    """Saves, writes and undo records of one session.

    Args:
        keeps_originals: Whether tensors that torch would keep alive are kept from their first write on, so
            that a report can describe their later history.
        queue: The save queue; a new ``PythonQueue`` if None.
    """

    follows_views = True
    follows_values = False

    def __init__(self, *, keeps_originals: bool = False, queue: SaveQueue | None = None) -> None:
        """Make an empty ledger; the class lists the arguments."""
        self._keeps_originals = keeps_originals
        self.pending: SaveQueue = PythonQueue() if queue is None else queue
        """Saves since the last write. The pack hook appends to it, in any thread."""
        self.pending.note_writes(self._file_noted, compat.entries.ENGINES_CODE if keeps_originals else None)
        self.watched: dict[int, list[weakref.ref[SavedTensor]]] = {}
        """Saves by storage key, since the last write to that storage."""
        self.logs: dict[int, weakref.ref[StorageLog]] = {}
        """Logs of storages that were written while live saves shared them, by storage key."""
        self.account = self.pending.account()
        self._write_count = 0
        """Number of writes that were entered in a log, without those that the queue noted."""
        self.fingerprints: Fingerprints | None = None
        """Content hashes of live saves; None if the session takes none."""
        self.saves_by_address: SavesByAddress | None = None
        """Saves whose memory another storage may cover, by address; None while no such save is known."""
        self.on_self_overlap: Callable[[str, Stack], None] | None = None
        """Called with an operation that is about to read what it has overwritten itself, and its stack."""
        self.unrecorded: Callable[[Exception], str] = str
        """Called when recording a write fails. Returns the sentence that is stored with every save the write
        may have hit."""
        self.view_writes = ViewWrites()  # writes that a view may have missed; all sessions share one object
        self.saved_bytes: SavedBytes | None = None
        """Bytes that each line keeps; None if the session doesn't count them."""
        self.replay: Stack | None = None
        """Stack of the first CUDA graph replay, whose writes go unseen because it runs no operation."""
        self.shared_counters: SharedCounters | None = None
        """Version counters that count writes to two memories; None until the program makes one."""
        self._saves_taken = 0  # number of saves that have left the queue
        self.pending_limit = _FIRST_PRUNE
        self._watched_count = 0  # references in `watched`, and those that left it since it was last pruned
        self._watched_limit = _FIRST_PRUNE
        self._lock = threading.RLock()

    # --- fed by hooks ---------------------------------------------------------------------------

    def prune(self) -> None:  # the queue may double before the next call
        with self._lock:
            self._saves_taken += self.pending.prune()
            self.pending_limit = 2 * len(self.pending) + _FIRST_PRUNE

    def take_own_saves(self, tensors: list[torch.Tensor]) -> list[Any]:
        """Take the saves that the running operation just made of ``tensors`` off the queue.

        Returns:
            At most one save for each tensor, as ``SaveQueue.extend`` takes it back. Empty if the queue does
            not receive the operation's saves.
        """
        with self._lock:
            return self.pending.take_own(tensors)

    def before_write(
        self, tensor: torch.Tensor, operation: str, bumps: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> StorageLog | None:
        """Record that a kernel is about to write to ``tensor``, in any thread.

        Args:
            tensor: The tensor to be written, any layout.
            operation: ATen name without overload.
            bumps: Whether the kernel moves the version counter afterwards.
        Returns:
            The log of the storage. None if no live save shares it, or if the write could not be recorded.
        """
        try:
            key = compat.tensors.storage_key_or_none(tensor)
            if key is None:
                # Without storage (sparse, wrappers) only a save's version is checked (test_sparse).
                return None
            borrowed = self.saves_by_address is not None or not compat.tensors.is_resizable(tensor)
            if not borrowed and compat.tensors.holders(tensor) == 1:
                return None
            if key in announced.keys:
                return None
            if self.pending:
                self._sort_pending(key)
            overlap_at = None
            if self.on_self_overlap is not None and overlaps_itself(operation, tensor, key, args, kwargs):
                overlap_at = of_program()
        except Exception as error:
            self._not_recorded(tensor, error)
            return None
        # Between the two `try`, because a strict session raises the program's error here
        # (test_strict_raises_before_the_write), which is no internal error.
        if self.on_self_overlap is not None and overlap_at is not None:
            self.on_self_overlap(operation, overlap_at)
        try:
            log = None if self._misses(tensor, key, operation) else self._log_of(key, tensor)
            by_views = concerns(tensor)
            borrowed = borrowed or self.saves_by_address is not None
            elsewhere = self._elsewhere(tensor, key) if borrowed else None
            if log is None and not by_views and not elsewhere:
                return None
            event = WriteEvent(operation, of_program(), None, bumps)
            if by_views:
                memory = compat.tensors.storage_of(tensor)
                self.view_writes.note(tensor, memory, _version(tensor), operation, event.stack)
            if log is None and not elsewhere:
                return None
            event.actor = running.actor(3)
            if elsewhere and operation not in METADATA_ONLY:
                self._enter_elsewhere(tensor, elsewhere, event, args, kwargs)
            return None if log is None else self._enter(tensor, log, event, args, kwargs)
        except Exception as error:
            self._not_recorded(tensor, error)
            return None

    def _misses(self, tensor: torch.Tensor, key: int, operation: str) -> bool:
        """Return whether a write surely changes neither a byte nor the version counter of what is saved.

        ``nn.GRU`` cuts a storage into parts with counters of their own, saves some and writes to others.
        """
        refs, version = self.watched.get(key, ()), _version(tensor)
        in_place = type(operation) is str and operation[-1:] == "_" and operation not in METADATA_ONLY
        if not in_place or not 0 < len(refs) <= _FEW or key in self.logs:
            return False
        saved = [alive.alias for ref in refs if (alive := ref()) is not None]
        if not all(map(compat.tensors.is_plain, (tensor, *saved))):
            return False
        return not any(_version(alias) == version or self.share_elements(tensor, alias) for alias in saved)

    def _not_recorded(self, tensor: torch.Tensor, error: Exception) -> None:
        """Handle an internal error while a write to ``tensor`` was recorded.

        The program goes on, but nothing is certain any more about the saves that share the memory.
        """
        fault, key = self.unrecorded(error), compat.tensors.storage_key_or_none
        with self._lock:
            queued = itertools.chain(self.pending.copy(), *self.watched.values())
            alive = [saved for ref in queued if (saved := ref()) is not None]
            for saved in (*alive, *self.live_saves()):
                own, written = (or_default(partial(key, each), None) for each in (saved.alias, tensor))
                # What can't be read may share it.
                if self.saves_by_address is not None or None in (own, written) or own == written:
                    _lose(saved, fault)

    def _enter(
        self,
        tensor: torch.Tensor,
        log: StorageLog,
        event: WriteEvent,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        shift: int = 0,
    ) -> StorageLog:
        """Note a write that is about to happen, and keep the values that it will destroy.

        ``shift`` is that of ``StorageLog.preserve``.
        """
        operation = event.operation
        with self._lock:
            self._write_count += 1
            region = None if operation in METADATA_ONLY else region_of(tensor)
            if region is not None:
                region = region.moved(shift)
            event.region, event.version, event.counter = region, _version(tensor), log.counter()
            if region is not None and not tensor.is_meta and compat.tensors.is_plain(tensor):
                selection = select(operation, args, kwargs or {}) if args and tensor is args[0] else None
                log.preserve(self.account, tensor, region, selection, shift)
            log.note(event)
            if operation == "set_":
                new = args[1] if len(args) == 2 and isinstance(args[1], torch.Tensor) else None
                self._note_storage_swap(log, tensor, event, new)
        return log

    def _file_noted(self) -> None:
        """File the saves whose memory was written, and the writes, that the native core has noted."""
        with self._lock:
            for key, saves, writes in self.pending.drain():
                alive = [saved for saved, *_ in saves if isinstance(saved, SavedTensor)]
                self._saves_taken += len(alive)
                try:
                    log, waiting = self._storage_log(key), deque(sorted(saves, key=lambda save: save[1]))
                    for number, (operation, stack, actor, version, counter, place, old) in enumerate(writes):
                        while waiting and waiting[0][1] <= number:
                            saved, _, *known = waiting.popleft()
                            if isinstance(saved, SavedTensor):
                                saved.held = None  # set if the record was made while the core noted the write
                                moved, original, maker, output = known
                                entry = self._add(log, saved, moved)
                                entry.original = original
                                if self.saves_by_address is not None and self.saves_by_address.everything:
                                    self.saves_by_address.add(saved)
                                if maker is not None:
                                    entry.history = History.of(maker, output)
                            else:  # it has died, and was one of the versions that its line saved
                                log.count_run(saved)
                        event = WriteEvent(operation, stack, actor, True, version)
                        event.counter, event.region = counter, region_at(*place)
                        if event.region is not None:
                            log.preserve(self.account, old, event.region, copied=True)
                        log.note(event)
                except Exception as error:
                    fault = self.unrecorded(error)
                    for saved in alive:
                        _lose(saved, fault)

    def _elsewhere(self, tensor: torch.Tensor, key: int) -> dict[int, int]:
        """Return the other storages over this memory that live saves share (``SavesByAddress.elsewhere``)."""
        with self._lock:
            known = self.track_by_address()
            # Only a write through borrowed memory can hit torch's own: without one the table may stay small
            # (test_memory_of_torchs_own_is_not_looked_up).
            if not known.everything and not compat.tensors.is_resizable(tensor):
                self._sort_pending()  # those of every storage
                known.take_everything(self.saves())
            return known.elsewhere(tensor, key)

    def track_by_address(self) -> SavesByAddress:
        """Start checking every write for saves of the same memory under another storage. Return the table."""
        if self.saves_by_address is None:
            self.saves_by_address = SavesByAddress()
        return self.saves_by_address

    def _enter_elsewhere(
        self,
        tensor: torch.Tensor,
        elsewhere: dict[int, int],
        event: WriteEvent,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Note a write in the logs of other storages over the same memory, whose counters it doesn't move."""
        for key, shift in elsewhere.items():
            log = self._log_of(key)
            if log is not None:
                if self.fingerprints is not None:
                    self.fingerprints.before_write(key, lambda: ProgramPoint(event.stack, False))
                own = WriteEvent(event.operation, event.seen_at, event.actor)
                self._enter(tensor, log, own, args, kwargs, shift)

    def unverified(self, operation: str, tensors: list[torch.Tensor], records: bool) -> UnverifiedCall | None:
        """Copy the shared arguments of an operation that is about to run and declares no write.

        Args:
            records: Whether autograd has made a node for it.
        Returns:
            The call, which compares the arguments afterwards. None if no live save shares any of them, apart
            from saves that the operation has made itself.
        """
        tensors = [
            t
            for t in tensors
            if compat.tensors.holders(t) > 1
            and compat.tensors.is_plain(t)
            and not t.is_meta
            and t.numel() * t.itemsize <= LARGEST_COPY
            and not compat.tensors.capturing(t)
        ]
        if not tensors:
            return None
        self._sort_pending()
        own = newest_operations_stack() if records else None
        inputs = []
        with self._lock:
            for tensor in tensors:
                key = compat.tensors.storage_key_or_none(tensor)
                if key is None:
                    continue
                log = self._log_of(key)
                if log is None or all(saved.stack == own for saved in log.saves()):
                    continue
                with torch.no_grad(), compat.dispatcher.unseen_by_torch():
                    inputs.append(SharedInput(tensor, tensor.clone(), log, log.serial))
        return UnverifiedCall(self.enter, operation, inputs) if inputs else None

    def enter(self, tensor: torch.Tensor, log: StorageLog, operation: str, stack: Stack) -> None:
        """Note a write that no kernel saw, after the caller has put the old values back for now."""
        key = compat.tensors.storage_key_or_none(tensor)
        try:
            if self.fingerprints is not None and key is not None:
                self.fingerprints.before_write(key, lambda: ProgramPoint(stack, False))
            self._enter(tensor, log, WriteEvent(operation, stack, None))
        except Exception as error:
            self._not_recorded(tensor, error)

    def _sort_pending(self, wanted: int | None = None) -> None:
        """Move every queued save that is still alive to ``watched``, under its storage's key.

        Backward itself writes (it adds gradients up) while most saves are alive, so this is hot:
        a key and a list, nothing more. If a storage is written, ``_file`` completes the work.

        Args:
            wanted: The only storage key that the caller needs. Saves of other storages may stay in the queue.
        """
        watched = self.watched
        with self._lock:
            if self.saves_by_address is not None and self.saves_by_address.everything:
                wanted = None
            pending = self.pending.take(wanted)
            while pending:
                try:
                    ref = pending.popleft()
                except IndexError:
                    return  # another thread took the last
                self._saves_taken += 1
                try:
                    saved = ref()
                    if saved is None:
                        continue
                    try:
                        storage = saved.alias.untyped_storage()
                    except (RuntimeError, ValueError):  # it has none
                        saved.entry = LogEntry()
                        continue
                    key: int = storage._cdata
                    if self.saves_by_address is not None or not storage.resizable():
                        known = self.track_by_address()
                        if known.everything or not storage.resizable():
                            known.add(saved)
                except Exception:
                    # Put back, because a later write must find these saves in the queue or in `watched`.
                    self.pending.append(ref)
                    self.pending.put_back(pending)
                    self._saves_taken -= 1
                    raise
                if key in watched:
                    watched[key].append(ref)
                else:
                    watched[key] = [ref]
                self._watched_count += 1
            if self._watched_count > self._watched_limit:
                self._forget_dead_watched()

    def _forget_dead_watched(self) -> None:
        """Drop the dead saves from ``watched``, and the storages that have no other."""
        with self._lock:
            self._watched_count = 0
            for key, refs in list(self.watched.items()):
                length = len(refs)
                alive = [ref for ref in refs if ref() is not None]
                if len(refs) == length:  # no finalizer of the program's has saved or written meanwhile
                    refs[:] = alive
                if not refs and self.watched.get(key) is refs:
                    del self.watched[key]
                self._watched_count += len(refs)
            self._watched_limit = 2 * self._watched_count + _FIRST_PRUNE

    def _log_of(self, key: int, target: torch.Tensor | None = None) -> StorageLog | None:
        """File the storage's saves and return its log; None if no live save shares it.

        ``target`` is the tensor through which the storage is about to be written, if that is known.
        """
        if key in self.watched:
            self._file(key, target)
        ref = self.logs.get(key)
        return None if ref is None else ref()

    def _file(self, key: int, target: torch.Tensor | None = None, *, written: bool = True) -> None:
        """Enter the saves that share a storage into its log, which is about to be ``written`` or sealed."""
        with self._lock:
            refs = self.watched.get(key, [])
            for ref in refs:
                saved = ref()
                if saved is None:
                    continue
                held = saved.held
                if written:
                    saved.held = None
                if saved.entry is not None:
                    continue  # `_lose` has given it an entry, which says that nothing is known
                if not compat.tensors.is_plain(saved.alias):
                    saved.entry = LogEntry()
                    continue
                entry = self._add(self._storage_log(key), saved)
                if self._keeps_originals:
                    note_original(saved, entry, target)
                del held  # only now, because `note_original` reaches the tensor by a weak reference
            # Last: after an internal error `_not_recorded` looks there. A finalizer may have saved again.
            if self.watched.get(key) is refs:
                del self.watched[key]

    def _storage_log(self, key: int) -> StorageLog:
        """Return the storage's log, which only its saves keep alive. Create it if there is none."""
        ref = self.logs.get(key)
        log = None if ref is None else ref()
        if log is None:
            log = StorageLog()
            logs = self.logs

            def forget(dead: weakref.ref[StorageLog]) -> None:
                if logs.get(key) is dead:
                    del logs[key]

            self.logs[key] = weakref.ref(log, forget)
        return log

    def _add(self, log: StorageLog, saved: SavedTensor, moved: bool | None = None) -> LogEntry:
        """Enter a save into the log, with the copy that a save of open memory carries."""
        entry = log.add(saved, moved)
        if saved.copied is not None and entry.undo_log is not None and fingerprint_of(saved) is None:
            entry.undo_log.append(open_memory.values_of(saved.alias, saved.copied, self.account))
            log.handed_out = open_memory.shown_at(saved.alias) or log.handed_out
        saved.copied = None
        return entry

    def before_replay(self) -> None:
        if self.replay is None:
            self.replay = of_program()

    def before_hand_out(self, tensor: torch.Tensor, address: bool = False) -> None:
        """Keep what saves hold of the tensor's memory, because code outside of torch can write there soon.

        With its bare address, all of the storage.
        """
        # Alone in its memory, a tensor shares none with a save.
        if compat.tensors.holders(tensor) == 1 or not compat.tensors.is_plain(tensor):
            return
        try:
            key = compat.tensors.storage_key(tensor)
            self._sort_pending(key)
            with self._lock:
                log = self._log_of(key, tensor)
                if log is None or not any(fingerprint_of(saved) is None for saved in log.saves()):
                    return  # a fingerprint shows the change, and names its line
                if address:
                    tensor = compat.dispatcher.whole(tensor)
                if (region := region_of(tensor)) is not None:
                    log.handed_out = of_program()
                    log.preserve(self.account, tensor, region)
        except Exception as error:
            self._not_recorded(tensor, error)

    def before_export(self, tensor: torch.Tensor) -> None:
        """Track memory by address, because a DLPack export may give a tensor's memory a second storage."""
        self.track_by_address()
        self.before_hand_out(tensor)

    def before_shrink(self, storage: torch.UntypedStorage, size: int) -> None:
        """Forget the values in memory that ``storage.resize_()`` is about to free without moving a counter.

        Keeping them would defeat the program's purpose: sharded training frees weights so, and gathers
        equal ones again before backward. Only torch's own check covers these saves from now on.
        """
        key = compat.tensors.key_of_storage(storage)
        self._sort_pending(key)
        if self.fingerprints is not None:
            self.fingerprints.given_back(key)
        with self._lock:
            log = self._log_of(key)
            if log is not None:
                log.lose(size)

    def marked_dirty(self, tensor: torch.Tensor) -> None:
        """Count one bump for a tensor that a custom Function marked dirty, because no write explains it."""
        with self._lock:
            self.pending.catch_up()
            key = compat.tensors.storage_key_or_none(tensor)
            ref = None if key is None else self.logs.get(key)
            log = None if ref is None else ref()
            if log is not None:
                log.settle(log.bumps + 1)

    def before_storage_swap(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        """Note that ``tensor.data = new`` is about to exchange the tensor's memory, and move no counter."""
        key = compat.tensors.storage_key_or_none(tensor)
        if key is None:
            return
        self._sort_pending(key)
        with self._lock:
            # Without another holder of the storage, the counter counts writes to the new one only.
            if compat.tensors.holders(tensor) > 1:
                self._share_counter(tensor, key, compat.tensors.storage_key_or_none(new))
            log = self._log_of(key)
            if log is None:
                return
            event = WriteEvent("set_data", of_program(), running.actor(), version=_version(tensor))
            event.region = region_of(tensor)
            self._note_storage_swap(log, tensor, event, new)

    def _share_counter(self, tensor: torch.Tensor, old: int, new: int | None) -> None:
        """Count writes to both storages, because ``tensor`` changes storage and keeps its shared counter."""
        if new is None or new == old:
            return
        if self.shared_counters is None:
            counters = self.shared_counters = SharedCounters()
            before_write = self.before_write

            def before_write_counted(
                tensor: torch.Tensor, operation: str, bumps: bool, *arguments: Any
            ) -> Any:
                """Note the write for its shared counter, then record it as ``before_write`` does."""

                def event() -> WriteEvent:
                    return WriteEvent(operation, of_program(), running.actor(), True, _version(tensor))

                uncertain = None
                try:
                    uncertain = counters.written(tensor, event, bumps)
                except Exception as error:
                    self._not_recorded(tensor, error)
                log = before_write(tensor, operation, bumps, *arguments)
                return log if uncertain is None else uncertain.over(log)

            # On the object: programs that exchange no memory pay nothing for this.
            self.before_write = before_write_counted  # type: ignore[method-assign,assignment]
        self.shared_counters.exchanged(tensor, old, new)
        self.pending.report_counter(tensor)

    def after_detach(self, tensor: torch.Tensor) -> None:
        """Note that ``tensor.detach_()`` has dropped the node that had made it: torch reads the history of
        what it keeps itself at unpack."""
        key = compat.tensors.storage_key_or_none(tensor)
        if key is None:
            return
        self._sort_pending(key)
        with self._lock:
            log, stack = self._log_of(key), of_program()
            for saved in () if log is None else log.saves():
                if saved.entry is not None and saved.itself and saved.origin() is tensor:
                    saved.entry.detached = stack

    def _note_storage_swap(
        self, log: StorageLog, tensor: torch.Tensor, event: WriteEvent, new: torch.Tensor | None
    ) -> None:
        """Observe the memory of ``new`` from now on for the saves of ``tensor``, which gets that memory."""
        to: SavedTensor | None = None
        for saved in log.saves():
            if saved.entry is not None and saved.itself and saved.origin() is tensor:
                if to is None and new is not None:
                    to = self.file(new, event.stack)
                saved.entry.storage_swap = StorageSwap(event, to)

    def saves(self, *, queued: bool = True) -> list[SavedTensor]:
        """Return all live saves, of written storages or not; without those in the queue unless ``queued``."""
        if not queued and not self.watched and not self.logs:
            return []
        refs = list(itertools.chain(self.pending.copy() if queued else (), *list(self.watched.values())))
        alive = [saved for ref in refs if (saved := ref()) is not None]
        # Each backward calls this: dead references would add up in a program that never writes.
        if 2 * len(alive) < len(refs):
            self.prune()
            self._forget_dead_watched()
        if self.logs:
            alive.extend(self.live_saves())
        return alive

    def held(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the tensors that saves of the storage of ``tensor`` hold.

        Each is a Python object of its own afterwards: a save in the native queue owns its tensor in C++.
        """
        key = compat.tensors.storage_key_or_none(tensor)
        if key is None:
            return
        self._sort_pending(key)
        for ref in tuple(self.watched.get(key, ())):
            saved = ref()
            if saved is not None and saved.held is not None:
                yield saved.held

    def let_go(self, tensor: torch.Tensor) -> int:
        """Make the saves of a tensor's memory drop their tensors, as a write does; return their number."""
        address = compat.tensors.storage_key_or_none(tensor)
        sharing = [
            saved for saved in self.saves() if compat.tensors.storage_key_or_none(saved.alias) == address
        ]
        for saved in sharing:
            saved.held = None
        return len(sharing)

    @staticmethod
    def share_elements(tensor: torch.Tensor, other: torch.Tensor) -> bool:  # of one storage
        region, others = region_of(tensor), region_of(other)
        return region is None or others is None or region.overlaps(others)

    def anything_alive(self) -> bool:
        """Return whether any save is alive. Forget dead saves on the way."""
        with self._lock:
            if self.logs:
                return True
            if self.pending:
                self.prune()
                if self.pending:
                    return True
            if any(ref() is not None for refs in list(self.watched.values()) for ref in refs):
                return True
            self._forget_dead_watched()
            return bool(self.watched)  # a finalizer of the program's may have saved meanwhile

    def file(self, tensor: torch.Tensor, stack: Stack) -> SavedTensor:
        """Observe ``tensor`` as if an operation had saved it now, until the returned record is dropped."""
        saved = SavedTensor.__new__(SavedTensor)
        with compat.unseen.unseen_by_functions():
            saved.alias = compat.unseen.alias_of(tensor)
            saved.version = _version(tensor)
            saved.requires_grad = compat.tensors.needs_grad(tensor)
        saved.held, saved.itself = None, True
        saved.origin = weakref.ref(tensor)
        saved.base = None
        saved.stack = stack
        saved.copied = saved.entry = None
        self.pending.append(weakref.ref(saved))
        self._saves_taken -= 1  # `save_count` counts autograd's saves only
        return saved

    # --- called by the session ------------------------------------------------------------------

    def state_of(self, saved: SavedTensor) -> SaveState:
        with self._lock:
            if saved.copied is not None and saved.entry is None:
                key = compat.tensors.storage_key(saved.alias)
                self._sort_pending(key)
                self._file(key, written=False)
            return self._state_of(saved)

    def _state_of(self, saved: SavedTensor) -> SaveState:
        """Return the save state of ``saved``. The caller holds the lock."""
        alias = saved.alias
        version = _version(alias)
        entry = saved.entry
        log = None if entry is None else entry.log
        elsewhere = len(self._elsewhere_counted(saved))
        if entry is None or log is None:
            unseen = version - saved.version > elsewhere
            return SaveState(saved, version, unseen, None, False, False, alias)
        # An operation bumps the counter of the tensor it wrote, which need not be this one's
        # (`.data` has its own), so fewer bumps than writes are normal; more are not.
        unseen = version - saved.version > _bumps(entry) + elsewhere or (entry.unseen and not elsewhere)
        swap = entry.storage_swap
        now = alias if swap is None else _memory_of(saved, swap)
        value = None
        changed = storage_swapped = False
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            unknown = compat.tensors.capturing(now)
            if entry.undo_log is not None and (at := entry.position) is not None and at.record is not None:
                value = entry.undo_log.value_at(at)
                changed = unknown or not (in_storage(now) and same_bits(value, now))
            elif now is not alias and not entry.given_back:
                changed = unknown or not (in_storage(now) and same_bits(alias, now))
        if changed and swap is not None:
            storage_swapped = self._brought_others(saved, swap, alias if value is None else value)
        return SaveState(saved, version, unseen, value, changed, storage_swapped, now)

    def _elsewhere_counted(self, saved: SavedTensor) -> list[WriteEvent]:
        return [] if self.shared_counters is None else self.shared_counters.writes_elsewhere(saved)

    def _brought_others(self, saved: SavedTensor, swap: StorageSwap, value: torch.Tensor) -> bool:
        """Return whether the memory that ``saved`` was given held values other than ``value`` then."""
        to = swap.to
        if to is None:
            return True
        if same_memory(to.alias, saved.alias):
            return False  # the memory is the same, so a write changed it, not the exchange
        held = self._state_of(to).before  # the program may have written there since
        with torch.no_grad(), compat.dispatcher.unseen_by_torch():
            return not (in_storage(held) and same_bits(value, held))

    def history(self, saved: SavedTensor) -> list[tuple[WriteEvent, bool]]:
        """Return all writes to the storage of ``saved`` since the save, oldest first.

        Each comes with whether it touched an element of ``saved``.
        """
        entry = saved.entry
        elsewhere = [(event, False) for event in self._elsewhere_counted(saved)]
        if entry is None or entry.log is None:
            return elsewhere
        with self._lock:
            region = region_of(saved.alias)
            events = [
                (event, region is not None and event.region is not None and region.overlaps(event.region))
                for event in entry.log.writes
                if event.last >= entry.since
            ]
            if elsewhere:
                events = sorted((*events, *elsewhere), key=lambda entry: entry[0].version)
            swap = _swap_of(saved)
            if swap is None:
                return events
            # Backward reads the new memory: writes to the old one touched none of its elements.
            before = [(event, False) for event, _ in events if event is not swap.event]
            after = [] if swap.to is None else self.history(swap.to)
            return [*before, (swap.event, self._state_of(saved).storage_swapped), *after]

    def reached(self, saved: SavedTensor, event: WriteEvent) -> Reached:
        """Return the memory that a write of the ``history`` of ``saved`` went to."""
        if any(event is other for other in self._elsewhere_counted(saved)):
            return "other"
        swap = _swap_of(saved)
        if swap is not None and event is not swap.event:
            log = None if saved.entry is None else saved.entry.log
            if log is not None and any(event is other for other in log.writes):
                return "former"
        return "same" if event.region is not None else "none"

    def counters(self, saved: SavedTensor, events: Sequence[WriteEvent]) -> list[int] | None:
        """Return the version counter of ``saved`` before each write of its ``history``, and now.

        None if unknown, because the log was folded or belongs to other memory.
        """
        if saved.entry is None or _swap_of(saved) is not None:
            return None
        counters = [event.counter for event in events if event.counter is not None and event.count == 1]
        counters.append(_version(saved.alias))
        # Out of order if the newest save at an event had another counter than this one (`.data`).
        in_order = all(earlier <= later for earlier, later in itertools.pairwise([saved.version, *counters]))
        return counters if in_order and len(counters) == len(events) + 1 else None

    @property
    def write_count(self) -> int:
        return self._write_count + self.pending.written

    @property
    def save_count(self) -> int:
        return self._saves_taken + len(self.pending) + self.pending.died

    def last_write(self, saved: SavedTensor) -> WriteEvent | None:
        entry = saved.entry
        if entry is None or entry.log is None or entry.log.serial == entry.since:
            return None
        return entry.log.writes[-1]

    def seal(self) -> None:
        """Note the version counters of all live saves at the session's end.

        Later writes go unseen, so a save whose counter moves from now on must be refused.
        """
        self._sort_pending()
        with self._lock:
            for key in list(self.watched):
                self._file(key, written=False)
            for saved in self.live_saves():
                if saved.entry is not None:
                    saved.entry.sealed = _version(saved.alias)  # test_write_after_the_context
            self.logs.clear()

    def live_saves(self) -> Iterator[SavedTensor]:
        self.pending.catch_up()
        for ref in list(self.logs.values()):
            log = ref()
            if log is not None:
                yield from log.saves()


class FingerprintedLedger(Ledger):
    """A ledger that keeps its session's fingerprints up to date with the observed writes.

    Args:
        fingerprints: The session's fingerprints.
        keeps_originals: As for ``Ledger``.
    """

    fingerprints: Fingerprints

    def __init__(self, fingerprints: Fingerprints, *, keeps_originals: bool = False) -> None:
        super().__init__(keeps_originals=keeps_originals)
        self.fingerprints = fingerprints

    def before_write(self, tensor: torch.Tensor, *arguments: Any) -> StorageLog | None:
        """Check the storage's fingerprints, then record the write as ``Ledger`` does."""
        with self.fingerprints.this_thread:
            try:
                key = compat.tensors.storage_key_or_none(tensor)
                if key is not None:  # without storage there is no fingerprint either
                    self.fingerprints.before_write(key, lambda: ProgramPoint(of_program(), False))
            except Exception as error:
                self._not_recorded(tensor, error)
            return super().before_write(tensor, *arguments)


def _lose(saved: SavedTensor, fault: str) -> None:
    """Drop all knowledge of ``saved`` but its version counter, because of the internal error ``fault``."""
    entry = saved.entry
    if entry is None:
        entry = saved.entry = LogEntry(unseen=True)
    entry.log = entry.undo_log = entry.position = None
    entry.lost = fault


def _version(tensor: torch.Tensor) -> int:
    try:
        return int(compat.tensors.version_of(tensor))
    except RuntimeError:
        return 0  # inference tensors keep no counter


def _bumps(entry: LogEntry) -> int:
    """Return how often the observed writes should have moved the counter of a save."""
    if entry.log is None:
        return 0
    bumps, swap = entry.log.bumps - entry.bumps, entry.storage_swap
    if swap is not None and swap.to is not None and swap.to.entry is not None:
        bumps += _bumps(swap.to.entry)
    return bumps


def _memory_of(saved: SavedTensor, swap: StorageSwap) -> torch.Tensor:
    origin = saved.origin()
    if origin is not None:
        return compat.tensors.detached(origin)
    return saved.alias if swap.to is None else swap.to.alias


def _swap_of(saved: SavedTensor) -> StorageSwap | None:
    """Return the exchange that gave ``saved`` other memory; None if there is none.

    ``w.data -= 1`` exchanges the memory for itself.
    """
    swap = None if saved.entry is None else saved.entry.storage_swap
    if swap is not None and swap.to is not None and same_memory(swap.to.alias, saved.alias):
        return None
    return swap
