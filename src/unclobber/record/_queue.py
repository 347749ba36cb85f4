"""Where saves lie that nobody has asked for yet: what the pack hook appends to, and writes take from."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

import torch

from ..source import frames
from ..torch_internals import compat
from .saved import SavedTensor

_NEWEST = 8
"""Saves looked at for those of the running operation."""

Ref = weakref.ref[SavedTensor]


class SaveQueue(Protocol):
    """What a ledger asks of its queue, which the native core has another of.

    That one notes saves without Python, and makes them ``SavedTensor`` only where they are handed out.
    """

    died: int
    """How many have left because they died, but for those that ``prune`` gave."""

    def __len__(self) -> int: ...
    def append(self, ref: Any) -> None: ...

    def extend(self, refs: Iterable[Any]) -> None:
        """Append references, or what ``take_own`` has given."""

    def popleft(self) -> Ref: ...
    def copy(self) -> Iterable[Ref]: ...

    def prune(self) -> int:
        """Forget references that are dead; how many they were."""

    def take(self, key: int | None) -> deque[Ref] | tuple[()]:
        """References to what is saved of a storage, and perhaps to others, which leave; to all if None.

        It may be the queue itself, which is then to be emptied.
        """

    def put_back(self, refs: deque[Ref]) -> None:
        """Append what is left of a ``take``."""

    def take_own(self, tensors: list[torch.Tensor]) -> list[Any]:
        """Put aside what the running operation has just saved of ``tensors``: at most one save for each."""

    def ask_always(self) -> None:
        """From now on tell the ledger of every write, whatever of it shares the queue's saves' memory."""

    def may_rest(self) -> bool | str | None:
        """Whether backward may run unobserved, as ``hooks.pause`` has it; ``"hook"`` where a leaf has a hook.

        None where each save must be looked at.
        """


class PythonQueue(deque[Any]):
    """The one of the core in Python: weak references."""

    died = 0

    def prune(self) -> int:
        looked_at = self.copy()  # in one piece: other threads append meanwhile
        alive = [ref for ref in looked_at if ref() is not None]
        self.extend(alive)  # first: a write in another thread must not find the queue without them
        for _ in looked_at:
            self.popleft()
        return len(looked_at) - len(alive)

    def take(self, key: int | None) -> deque[Ref]:
        return self

    def put_back(self, refs: deque[Ref]) -> None:
        """They have never left."""

    def take_own(self, tensors: list[torch.Tensor]) -> list[Any]:
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
                if saved is not None:
                    saved.held = None  # it is about to be written to
                own.append(ref)
            else:
                others.append(ref)
        self.extend(reversed(others))
        return own

    def ask_always(self) -> None:
        """So it is done anyway."""

    def may_rest(self) -> None:
        return None


def newest_operations_stack() -> frames.Stack | None:
    """The stack of the operation whose node is this thread's newest; None if it has saved nothing."""
    number, stack = frames.newest_save()
    return stack if number == compat.next_sequence_number() else None
