"""Notes about backward nodes, kept apart from them because a program may look at a node's ``metadata``.

A note refers to its node by a key and keeps no part of it alive, so it may outlive the node. The oldest are
forgotten, as in the native core (observe/native/sources/notes.cpp).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ...torch_internals import compat

Note = TypeVar("Note")
_MANY = 128


class NodeNotes(Generic[Note]):
    """Table of one note for each of the nodes that were noted last."""

    def __init__(self) -> None:
        self.newer: dict[Any, Note] = {}
        """By ``compat.graph.node_key``, the notes since the oldest were forgotten."""
        self._older: dict[Any, Note] = {}

    def put(self, node: Any, note: Note) -> None:
        self.newer[compat.graph.node_key(node)] = note

    def of(self, node: Any) -> Note | None:
        key = compat.graph.node_key(node)
        return self.newer.get(key) or self._older.get(key)

    def forget_oldest(self) -> None:  # each backward calls this when it starts
        if len(self.newer) > _MANY:
            self._older, self.newer = self.newer, {}

    def forget(self) -> None:
        self._older, self.newer = {}, {}
