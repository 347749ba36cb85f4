"""Bytes that each line keeps for backward, at the moment of their highest total."""

from __future__ import annotations

import threading
import weakref

from ...source import Instruction, user_frame
from ...torch_internals import compat
from .saved import SavedTensor

Line = tuple[str, int]


class SavedBytes:
    """Saved bytes by line. A storage counts once, for the line that saved it first, until its last save dies.

    Parameters don't count, because the program keeps them anyway.
    """

    def __init__(self) -> None:
        """Start counting with no save alive."""
        self._saves: dict[int, int] = {}  # number of live saves by storage key
        self._paid: dict[int, tuple[Line, int]] = {}
        """Line and bytes that a storage is counted for, by storage key."""
        self._now: dict[Line, int] = {}
        self._total = 0
        self._most = 0
        self._peak: dict[Line, int] = {}
        self._refs: set[weakref.ref[SavedTensor]] = set()
        # Reentrant, because a garbage collection inside the lock can call `died` in the same thread.
        self._lock = threading.RLock()

    def add(self, saved: SavedTensor) -> None:
        """Count a tensor that was just saved, until its save record dies."""
        key = compat.tensors.storage_key_or_none(saved.alias)
        if key is None or _is_parameter(saved):
            return

        def died(ref: weakref.ref[SavedTensor]) -> None:
            with self._lock:
                self._refs.discard(ref)
                self._drop(key)

        with self._lock:
            self._saves[key] = self._saves.get(key, 0) + 1
            self._refs.add(weakref.ref(saved, died))
            if key not in self._paid:
                self._pay(key, _line(saved), saved.alias.untyped_storage().nbytes())

    def at_peak(self) -> dict[Line, int]:
        return dict(sorted(self._peak.items(), key=lambda item: -item[1]))

    def _pay(self, key: int, line: Line, size: int) -> None:
        self._paid[key] = (line, size)
        self._now[line] = self._now.get(line, 0) + size
        self._total += size
        if self._total > self._most:
            self._most = self._total
            self._peak = {each: count for each, count in self._now.items() if count}

    def _drop(self, key: int) -> None:
        self._saves[key] -= 1
        if not self._saves[key]:
            del self._saves[key]
            line, size = self._paid.pop(key, (("", 0), 0))  # none if the recursion limit ended `_line`
            self._now[line] = self._now.get(line, 0) - size
            self._total -= size


def _is_parameter(saved: SavedTensor) -> bool:
    # A Linear saves the transpose of its weight: the base is the parameter.
    tensor = saved.origin() if saved.base is None else saved.base()
    return tensor is not None and tensor.requires_grad and not compat.graph.has_history(tensor)


def _line(saved: SavedTensor) -> Line:
    stack = saved.stack
    if not stack:
        return "", 0
    at = user_frame(stack) or Instruction(*stack[:2])
    return at.code.co_filename, at.line
