"""The save queue: the pack hook appends new saves, and the ledger takes them at the next write."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, Protocol

import torch

from ...source import Stack
from ...torch_internals import compat
from ._undo import Account
from .running import newest_save
from .saved import SavedTensor

_NEWEST = 8  # number of newest saves that are inspected for those of the running operation

Ref = weakref.ref[SavedTensor]


class SaveQueue(Protocol):
    """Interface of the save queue. What has a body here is right for a queue that notes no write.

    The native core implements it in C++ and builds a ``SavedTensor`` only when one is taken out.
    """

    died: int = 0  # number of saves that left because they died, without those that `prune` counted
    written: int = 0  # number of writes to live saves that were noted

    def __len__(self) -> int: ...
    def append(self, ref: Any, /) -> None: ...

    def extend(self, refs: Iterable[Any], /) -> None:
        """Append references, or the result of ``take_own``."""

    def popleft(self) -> Ref: ...
    def copy(self) -> Iterable[Ref]: ...

    def prune(self) -> int:
        """Remove dead references. Return how many were removed."""

    def take(self, key: int | None) -> deque[Ref] | tuple[()]:
        """Return references to the saves of the storage ``key``, perhaps with others; to all saves if None.

        The result may be the queue itself: the caller empties it.
        """

    def put_back(self, refs: deque[Ref]) -> None:
        """Append the remaining references of an interrupted ``take``, unless that returned the queue."""
        return

    def take_own(self, tensors: list[torch.Tensor]) -> list[Any]:
        """Remove and return the saves that the running operation made of ``tensors``, at most one of each."""

    def account(self) -> Account:
        """Return the account of the session's overwritten values."""
        return Account()

    def note_writes(self, file: Callable[[], None], backward: CodeType | None) -> None:
        """Note writes to live saves, if that is possible, and call ``file`` before such a save is shown.

        ``backward`` is the code below which every backward runs, if the ledger keeps originals.
        """
        return

    def catch_up(self) -> None:
        """Call the ``file`` of ``note_writes`` if any write is noted."""
        return

    def drain(self) -> list[tuple[int, list[Any], list[Any]]]:
        """Return the key, the saves and the noted writes of each storage. The saves leave the queue."""
        return []

    def report_counter(self, tensor: torch.Tensor) -> None:
        """Report every write that moves the version counter of ``tensor`` to the ledger from now on."""
        return

    def can_pause_observation(self) -> bool | str | None:
        """Return whether backward may run unobserved (``hooks.pause``), or ``"hook"`` if a leaf has a hook.

        None if the caller must inspect each save, because the queue keeps no summary.
        """
        return None


class PythonQueue(deque[Any], SaveQueue):
    """The Python core's save queue: weak references, oldest first."""

    def prune(self) -> int:
        """Remove dead references, and no live one, because a write in another thread must find it here."""
        removed = 0
        # If a finalizer of the program's, which may run in between, has taken `ref`, the others stay for now.
        with contextlib.suppress(ValueError):
            for ref in self.copy():  # in one piece: other threads append meanwhile
                if ref() is not None:
                    self.rotate(-1)
                else:
                    self.remove(ref)
                    removed += 1
        return removed

    def take(self, key: int | None) -> deque[Ref]:
        return self

    def take_own(self, tensors: list[torch.Tensor]) -> list[Any]:
        """Remove and return the running operation's saves of ``tensors`` among the ``_NEWEST`` saves."""
        # Compared by identity below, because an earlier run of the line has an equal stack.
        stack = newest_operations_stack()
        if stack is None:
            return []
        left = list(tensors)
        own: list[Ref] = []
        others: list[Ref] = []
        while left and self and len(own) + len(others) < _NEWEST:
            ref = self.pop()
            saved = ref()
            origin = None if saved is None or saved.stack is not stack else saved.origin()
            before = len(left)
            left = [tensor for tensor in left if tensor is not origin]
            if len(left) < before:
                # Still held, it would be a cycle: the write makes it the output of a node that leads here.
                if saved is not None:
                    saved.held = None
                own.append(ref)
            else:
                others.append(ref)
        self.extend(reversed(others))
        return own


def newest_operations_stack() -> Stack | None:
    """Return the stack of the operation that made this thread's newest node, or None if it saved nothing."""
    number, stack = newest_save()
    return stack if number == compat.graph.next_sequence_number() else None
