"""Content hashes of live saved tensors, which reveal changes without an observed write.

A hash is taken when the operation that saved the tensor has finished (batch norm fills running
statistics, RReLU its noise, after they were saved) and compared when backward unpacks the tensor.
After an observed write it is taken again. In between, a few are checked whenever the
program calls torch, so that a change can be located between two lines: first those whose
memory was handed out of torch (``.numpy()``, ``data_ptr()``), then the others in turn.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache

import torch

from ...source import Stack, statement_between
from ._fingerprint import Fingerprint, ProgramPoint
from .content import digest, plain_key_or_none
from .saved import SavedTensor, fingerprint_of

_GOLDEN = 0x9E3779B97F4A7C15
_BYTES_AN_EVENT = 1 << 18
"""Bytes of handed-out memory that are checked at each call of torch; unused ones add up."""
_MOST_CREDIT = 1 << 28
_LARGEST_IN_TURN = 1 << 14  # size limit in bytes of other saves that are checked, one at each call of torch
_DEAD_AT_A_TIME = 16
_MOST_STATEMENTS = 256
"""Pairs of places whose statement is remembered, because a loop comes back to the same pairs."""


class Fingerprints:
    """All fingerprints of one session.

    Args:
        rate: The share of saved tensors that get one, 0 to 1. The choice depends on their count alone,
            so that two runs of a program choose the same tensors.
    """

    def __init__(self, rate: float) -> None:
        """Make an empty table; the class lists the arguments."""
        self._limit = int(rate * 2**64)
        self._count = 0
        self.this_thread = _ThisThread()
        self._by_key: dict[int, list[weakref.ref[Fingerprint]]] = {}
        self._turn: deque[weakref.ref[Fingerprint]] = deque()
        self._handed_out: set[int] = set()
        self._credit = 0
        self._moments = 0
        self._statement_between = lru_cache(_MOST_STATEMENTS)(statement_between)
        self._lock = threading.RLock()

    # --- called by the hooks -------------------------------------------------------------------

    def add(self, saved: SavedTensor) -> None:
        """Give ``saved`` a fingerprint if it is chosen. The hash is taken once its operation has finished."""
        self._count += 1
        # Multiples of the golden ratio spread evenly, so every stretch of the run gets its share; a random
        # choice would not repeat (test_sampling_is_deterministic_and_proportional).
        if (self._count * _GOLDEN) % 2**64 >= self._limit:
            return
        with self.this_thread:
            key = plain_key_or_none(saved.alias)
            if key is None:
                return
            if not saved.alias.untyped_storage().resizable():
                self._handed_out.add(key)  # `from_numpy` and the like: another library owns the memory
            fingerprint = saved.fingerprint = Fingerprint(saved.alias, key, threading.get_ident())
        ref = weakref.ref(fingerprint)
        with self._lock:
            self._by_key.setdefault(key, []).append(ref)
            self._turn.append(ref)
        self.this_thread.waiting.append(ref)

    def before_write(self, key: int, place: Callable[[], ProgramPoint]) -> None:
        """Check the storage's fingerprints before an observed write, and let them be taken again after it."""
        if key not in self._by_key:
            return
        with self.this_thread, self._lock:
            for fingerprint in self._alive(key):
                self._look(fingerprint, place)
                # A change found before stays the finding: the new hash would hide it.
                if fingerprint.bad is None and not fingerprint.at_need_only:
                    fingerprint.value = None
                    fingerprint.owner = threading.get_ident()
                    self.this_thread.waiting.append(weakref.ref(fingerprint))

    def given_back(self, key: int) -> None:
        """Compare the storage's fingerprints only at unpack, because its memory is about to be freed.

        Refilling the memory is no change of content: sharded training gathers the values that were there.
        """
        with self._lock:
            for fingerprint in self._alive(key):
                fingerprint.at_need_only = True

    def hand_out(self, tensor: torch.Tensor) -> None:
        """Check the tensor's memory at each torch call, because code outside torch can now write to it."""
        with self.this_thread:
            key = plain_key_or_none(tensor)
        if key is not None:
            self._handed_out.add(key)

    def before_call(self, place: Callable[[], ProgramPoint]) -> None:
        """Take the waiting fingerprints and check some others, just before a torch call of this thread."""
        if not self.this_thread.quiet:
            # Even before a call and odd after it, also if `after_call` was skipped for the previous call.
            self._moments += 2 - self._moments % 2
            self._look_around(place, others=True)

    def after_call(self, place: Callable[[], ProgramPoint]) -> None:
        """Take the waiting fingerprints and check handed-out memory, just after a torch call."""
        if not self.this_thread.quiet:
            self._moments += 1
            if self.this_thread.waiting or self._handed_out:
                self._look_around(place, others=False)

    def _look_around(self, place: Callable[[], ProgramPoint], others: bool) -> None:
        """Take the waiting fingerprints, check handed-out memory, and the next of the ``others``."""
        with self.this_thread, self._lock:
            moment = self._now()
            here = cache(lambda: place()._replace(moment=moment))
            self._settle(here)
            if self._handed_out:
                self._look_at_handed_out(here)
            if others:
                self._look_at_next(here)

    def _now(self) -> int | None:
        # With a second thread, the statement between two moments of this thread need not be the writer.
        others = {type(t).__module__ for t in threading.enumerate() if t is not threading.current_thread()}
        alone = others <= {"tqdm._monitor"}  # it outlives its bar and only waits
        return self._moments if alone else None

    def _look_at_handed_out(self, place: Callable[[], ProgramPoint]) -> None:
        self._credit = min(self._credit + _BYTES_AN_EVENT, _MOST_CREDIT)
        for key in self._handed_out & self._by_key.keys():
            for fingerprint in self._alive(key):
                if fingerprint.nbytes <= self._credit:
                    self._credit -= fingerprint.nbytes
                    self._look(fingerprint, place)

    def _look_at_next(self, place: Callable[[], ProgramPoint]) -> None:
        """Check the next fingerprint in turn, if it is small. Skip at most ``_DEAD_AT_A_TIME`` dead ones."""
        for _ in range(min(_DEAD_AT_A_TIME, len(self._turn))):
            ref = self._turn.popleft()
            fingerprint = ref()
            if fingerprint is not None:
                self._turn.append(ref)
                if fingerprint.nbytes <= _LARGEST_IN_TURN:
                    self._look(fingerprint, place)
                return

    def look_at(self, tensor: torch.Tensor, place: Callable[[], ProgramPoint]) -> None:
        with self.this_thread, self._lock:
            key = plain_key_or_none(tensor)
            for fingerprint in () if key is None else self._alive(key):
                self._look(fingerprint, place)

    # --- called at unpack ----------------------------------------------------------------------

    def changed(self, saved: SavedTensor, place: Callable[[], ProgramPoint]) -> Fingerprint | None:
        """Return the fingerprint of ``saved`` if its content changed without an observed write, else None."""
        fingerprint = fingerprint_of(saved)
        if fingerprint is None:
            return None
        with self.this_thread, self._lock:
            if self.this_thread.waiting:
                self._settle(place)
            fingerprint.at_need_only = False
            self._look(fingerprint, place)
            return fingerprint if fingerprint.bad is not None else None

    # --- inside --------------------------------------------------------------------------------

    def _settle(self, place: Callable[[], ProgramPoint]) -> None:
        """Take the hashes that waited for this thread's operation to finish."""
        waiting, self.this_thread.waiting = self.this_thread.waiting, []
        thread = threading.get_ident()
        for ref in waiting:
            fingerprint = ref()
            alias = None if fingerprint is None else fingerprint.alias()
            # After a write in another thread, that thread takes the hash.
            if fingerprint is None or alias is None or fingerprint.owner != thread:
                continue
            if fingerprint.value is None and fingerprint.bad is None:
                fingerprint.value = digest(alias)
                fingerprint.good = place()

    def _look(self, fingerprint: Fingerprint, place: Callable[[], ProgramPoint]) -> None:
        """Compare a fingerprint with the content. Note ``place()`` as the last good or first bad point."""
        alias = fingerprint.alias()
        known = fingerprint.value is not None and fingerprint.bad is None
        if alias is None or not known or fingerprint.at_need_only:
            return
        now = digest(alias)
        if now is None:
            return
        if now == fingerprint.value:
            fingerprint.good = place()
        else:
            fingerprint.bad = bad = place()
            fingerprint.write = self._statement(fingerprint.good, bad)

    def _statement(self, good: ProgramPoint | None, bad: ProgramPoint) -> Stack | None:
        """Return the stack of the only statement between two consecutive checks, or None if several ran."""
        if good is None or good.moment is None or bad.moment != good.moment + 1 or bad.after:
            return None
        return self._statement_between(good.stack, good.name, bad.stack, bad.name)

    def _alive(self, key: int) -> list[Fingerprint]:
        """Return the live fingerprints of a storage. Forget its dead ones."""
        alive = [each for ref in self._by_key.get(key, ()) if (each := ref()) is not None]
        if alive:
            self._by_key[key] = list(map(weakref.ref, alive))
        else:
            self._by_key.pop(key, None)
        return alive


class _ThisThread(threading.local):
    """A thread's fingerprints that wait for its running operation to finish.

    While it is entered, calls of torch in this thread are unclobber's own.
    """

    def __init__(self) -> None:
        self.waiting: list[weakref.ref[Fingerprint]] = []
        self.quiet = 0  # how often it is entered

    def __enter__(self) -> None:
        self.quiet += 1

    def __exit__(self, *error: object) -> None:
        self.quiet -= 1
