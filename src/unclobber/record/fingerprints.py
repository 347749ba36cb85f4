"""Content hashes of live saved tensors: changes that came without a write that anybody saw.

A hash is taken when the operation that saved the tensor has finished (batch norm fills running
statistics, RReLU its noise, after they were saved) and compared when backward needs the tensor.
After a write that was seen it is taken anew. In between, a few are looked at again whenever the
program calls torch, so that a change can be said to lie between two lines: first those whose
memory was handed out of torch (``.numpy()``, ``data_ptr()``), then the others in turn.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator

import torch

from ..source import Stack
from ..source.between import statement_between
from ._fingerprint import Fingerprint, ProgramPoint
from .content import digest
from .saved import SavedTensor

_GOLDEN = 0x9E3779B97F4A7C15
_BYTES_AN_EVENT = 1 << 18
"""Bytes of handed-out memory that are looked at again at one call of torch."""
_MOST_CREDIT = 1 << 28
_LARGEST_IN_TURN = 1 << 14
"""Bytes of the largest others: at each call of torch, the next one in turn is looked at."""
_DEAD_AT_A_TIME = 16
_MOST_STATEMENTS = 256
"""Pairs of places whose statement is remembered: a loop asks for the same again."""


class Fingerprints:
    """All fingerprints of one session.

    Args:
        rate: The share of saved tensors that get one, 0 to 1; which ones depends on their count alone,
            so that two runs of a program choose the same.
        key_of: A tensor's storage, or None where it has none.
    """

    def __init__(self, rate: float, key_of: Callable[[torch.Tensor], int | None]) -> None:
        self._limit = int(rate * 2**64)
        self._key_of = key_of
        self._count = 0
        self._local = _Queue()
        self._by_key: dict[int, list[weakref.ref[Fingerprint]]] = {}
        self._turn: deque[weakref.ref[Fingerprint]] = deque()
        self._handed_out: set[int] = set()
        self._credit = 0
        self._moments = 0
        self._statements: dict[tuple[Stack, Stack], Stack | None] = {}
        self._lock = threading.RLock()

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        """While our own code calls torch in this thread, its calls are no events of the program's."""
        return _Quiet(self._local)

    # --- told by the hooks ---------------------------------------------------------------------

    def add(self, saved: SavedTensor) -> None:
        """A tensor was saved by an operation that may still be running."""
        self._count += 1
        with self.quiet():
            self._add(saved)

    def _add(self, saved: SavedTensor) -> None:
        if (self._count * _GOLDEN) % 2**64 >= self._limit:
            return
        key = self._key_of(saved.alias)
        if key is None:
            return
        if not saved.alias.untyped_storage().resizable():
            self._handed_out.add(key)  # `from_numpy` and the like: somebody else's memory
        fingerprint = Fingerprint(saved.alias, key, threading.get_ident())
        saved.fingerprint = fingerprint
        ref = weakref.ref(fingerprint)
        with self._lock:
            self._by_key.setdefault(key, []).append(ref)
            self._turn.append(ref)
        self._local.waiting.append(ref)

    def before_write(self, key: int, place: Callable[[], ProgramPoint]) -> None:
        """A write to the storage was seen and is about to happen, in this thread."""
        if key not in self._by_key:
            return
        with self.quiet(), self._lock:
            for fingerprint in self._alive(key):
                self._look(fingerprint, place)
                if fingerprint.bad is None and not fingerprint.at_need_only:
                    fingerprint.value = None
                    fingerprint.owner = threading.get_ident()
                    self._local.waiting.append(weakref.ref(fingerprint))

    def given_back(self, key: int) -> None:
        """The storage's memory is about to be given back: only at need is there content to compare.

        What fills it again is no event of the program's: sharded training gathers what was there.
        """
        with self._lock:
            for fingerprint in self._alive(key):
                fingerprint.at_need_only = True

    def hand_out(self, tensor: torch.Tensor) -> None:
        """The tensor's memory was given to something that writes without torch: keep an eye on it."""
        with self.quiet():
            key = self._key_of(tensor)
        if key is not None:
            self._handed_out.add(key)

    def before_call(self, place: Callable[[], ProgramPoint]) -> None:
        """This thread is about to call torch: what it ran before has finished."""
        local = self._local
        if local.quiet:
            return
        with self.quiet(), self._lock:
            self._moments += 2 - self._moments % 2
            place = _Once(place, self._now())
            if local.waiting:
                self._settle(place)
            if self._handed_out:
                self._look_at_handed_out(place)
            if self._turn:
                self._look_at_next(place)

    def after_call(self, place: Callable[[], ProgramPoint]) -> None:
        """This thread has just come back from a call of torch."""
        local = self._local
        if local.quiet:
            return
        self._moments += 1
        if not (local.waiting or self._handed_out):
            return
        with self.quiet(), self._lock:
            place = _Once(place, self._now())
            if local.waiting:
                self._settle(place)
            if self._handed_out:
                self._look_at_handed_out(place)

    def _now(self) -> int | None:
        alone = threading.active_count() == 1 or all(map(_is_harmless, threading.enumerate()))
        return self._moments if alone else None

    def _look_at_handed_out(self, place: Callable[[], ProgramPoint]) -> None:
        self._credit = min(self._credit + _BYTES_AN_EVENT, _MOST_CREDIT)
        for key in self._handed_out & self._by_key.keys():
            for fingerprint in self._alive(key):
                if fingerprint.nbytes <= self._credit:
                    self._credit -= fingerprint.nbytes
                    self._look(fingerprint, place)

    def _look_at_next(self, place: Callable[[], ProgramPoint]) -> None:
        for _ in range(min(_DEAD_AT_A_TIME, len(self._turn))):
            ref = self._turn.popleft()
            fingerprint = ref()
            if fingerprint is not None:
                self._turn.append(ref)
                if fingerprint.nbytes <= _LARGEST_IN_TURN:
                    self._look(fingerprint, place)
                return

    def look_at(self, tensor: torch.Tensor, place: Callable[[], ProgramPoint]) -> None:
        """Look now at everything that shares the tensor's memory."""
        with self.quiet(), self._lock:
            key = self._key_of(tensor)
            for fingerprint in () if key is None else self._alive(key):
                self._look(fingerprint, place)

    # --- asked at need -------------------------------------------------------------------------

    def changed(self, saved: SavedTensor, place: Callable[[], ProgramPoint]) -> Fingerprint | None:
        """The fingerprint of ``saved`` if its content changed and no write was seen to do it."""
        fingerprint: Fingerprint | None = getattr(saved, "fingerprint", None)
        if fingerprint is None:
            return None
        with self.quiet(), self._lock:
            if self._local.waiting:
                self._settle(place)
            fingerprint.at_need_only = False
            self._look(fingerprint, place)
            return fingerprint if fingerprint.bad is not None else None

    # --- inside --------------------------------------------------------------------------------

    def _settle(self, place: Callable[[], ProgramPoint]) -> None:
        waiting, self._local.waiting = self._local.waiting, []
        thread = threading.get_ident()
        for ref in waiting:
            fingerprint = ref()
            alias = None if fingerprint is None else fingerprint.alias()
            if fingerprint is None or alias is None or fingerprint.owner != thread:
                continue
            if fingerprint.value is None and fingerprint.bad is None:
                fingerprint.value = digest(alias)
                fingerprint.good = place()

    def _look(self, fingerprint: Fingerprint, place: Callable[[], ProgramPoint]) -> None:
        alias = fingerprint.alias()
        if alias is None or fingerprint.value is None or fingerprint.bad is not None:
            return
        if fingerprint.at_need_only:
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
        """The one statement that ran between two looks that followed each other."""
        if good is None or good.moment is None or bad.moment != good.moment + 1 or bad.after:
            return None
        where = good.stack, bad.stack
        if where not in self._statements:
            if len(self._statements) > _MOST_STATEMENTS:
                self._statements.clear()
            self._statements[where] = statement_between(good.stack, good.name, bad.stack, bad.name)
        return self._statements[where]

    def _alive(self, key: int) -> Iterator[Fingerprint]:
        refs = self._by_key.get(key, [])
        alive = [(ref, found) for ref in refs if (found := ref()) is not None]
        if alive:
            self._by_key[key] = [ref for ref, _ in alive]
        else:
            self._by_key.pop(key, None)
        for _, found in alive:
            yield found


def _is_harmless(thread: threading.Thread) -> bool:
    """Whether a thread is this one, or tqdm's monitor, which is left running and only looks at the clock."""
    return thread is threading.current_thread() or type(thread).__module__ == "tqdm._monitor"


class _Once:
    """The place of one event: captured when it is first asked for, then the same."""

    __slots__ = ("_found", "_moment", "_place")

    def __init__(self, place: Callable[[], ProgramPoint], moment: int | None) -> None:
        self._place = place
        self._moment = moment
        self._found: ProgramPoint | None = None

    def __call__(self) -> ProgramPoint:
        if self._found is None:
            self._found = self._place()._replace(moment=self._moment)
        return self._found


class _Queue(threading.local):
    """Fingerprints to be taken when this thread's running operation has finished."""

    def __init__(self) -> None:
        self.waiting: list[weakref.ref[Fingerprint]] = []
        self.quiet = False


class _Quiet(contextlib.AbstractContextManager[None]):
    __slots__ = ("_before", "_local")

    def __init__(self, local: _Queue) -> None:
        self._local = local

    def __enter__(self) -> None:
        self._before = self._local.quiet
        self._local.quiet = True

    def __exit__(self, *error: object) -> None:
        self._local.quiet = self._before
