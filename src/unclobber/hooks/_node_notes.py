"""Notes about backward nodes. They lie beside the nodes, whose ``metadata`` a program may look at.

A note refers to its node by a key and keeps nothing of it alive, so it may outlive the node. The oldest are
forgotten, as in the native core (native/sources/notes.cpp).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ..torch_internals import compat

Note = TypeVar("Note")
_MANY = 128


class NodeNotes(Generic[Note]):
    """One note for each of the nodes that were noted last."""

    def __init__(self) -> None:
        self._newer: dict[Any, Note] = {}
        self._older: dict[Any, Note] = {}

    def put(self, node: Any, note: Note) -> None:
        """Note something of a node, in place of what was noted before."""
        self._newer[compat.node_key(node)] = note

    def of(self, node: Any) -> Note | None:
        """Return the note of a node; None if it has none, or that was forgotten."""
        key = compat.node_key(node)
        return self._newer.get(key) or self._older.get(key)

    def forget_oldest(self) -> None:
        """Forget what was there before the last ``_MANY``; called when a backward begins."""
        if len(self._newer) > _MANY:
            self._older, self._newer = self._newer, {}

    def forget(self) -> None:
        """Forget all."""
        self._older, self._newer = {}, {}
