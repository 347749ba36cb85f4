"""How many bytes each line keeps for backward, at the moment when most are kept."""

from __future__ import annotations

import threading
import weakref

from ..source import sites, syntax
from ..torch_internals import compat
from .saved import SavedTensor

Line = tuple[str, int]


class SavedBytes:
    """Counts each storage once, for the line whose operation saved it first, until its last save dies.

    Parameters count for nothing: they live anyway.
    """

    def __init__(self) -> None:
        self._saves: dict[int, int] = {}
        """Live saves by storage."""
        self._paid: dict[int, tuple[Line, int]] = {}
        """Line and bytes by storage."""
        self._now: dict[Line, int] = {}
        self._total = 0
        self._most = 0
        self._peak: dict[Line, int] = {}
        self._refs: set[weakref.ref[SavedTensor]] = set()
        self._lock = threading.RLock()

    def add(self, saved: SavedTensor) -> None:
        """A tensor was just saved."""
        key = compat.storage_key_or_none(saved.alias)
        if key is None or _is_parameter(saved):
            return

        def died(ref: weakref.ref[SavedTensor]) -> None:
            with self._lock:
                self._refs.discard(ref)
                self._drop(key)

        with self._lock:
            self._refs.add(weakref.ref(saved, died))
            self._saves[key] = self._saves.get(key, 0) + 1
            if key not in self._paid:
                self._pay(key, _line(saved), saved.alias.untyped_storage().nbytes())

    def at_peak(self) -> dict[Line, int]:
        """Bytes by path and line, largest first."""
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
            line, size = self._paid.pop(key)
            self._now[line] -= size
            self._total -= size


def _is_parameter(saved: SavedTensor) -> bool:
    tensor = saved.origin() if saved.base is None else saved.base()
    return tensor is not None and tensor.requires_grad and not compat.has_history(tensor)


def _line(saved: SavedTensor) -> Line:
    """The user's line; a library's where no frame is the user's."""
    stack = saved.stack
    if not stack:
        return "", 0
    code, lasti = sites.user_frame(stack) or stack[:2]
    return code.co_filename, syntax.line_of(code, lasti)
