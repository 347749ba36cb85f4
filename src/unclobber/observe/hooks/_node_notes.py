"""Notes about backward nodes, kept apart from them because a program may look at a node's ``metadata``.

A note refers to its node by a key and keeps no part of it alive, so it may outlive the node. The oldest are
forgotten, as in the native core (observe/native/sources/notes.cpp).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ...torch_internals import compat

Note = TypeVar("Note")
_MANY, _MOST = 128, 10_000  # of backwards in several threads, where none has a mark, the latter


class NodeNotes(Generic[Note]):
    """Table of one note for each of the nodes that were noted last."""

    def __init__(self) -> None:
        self.newer: dict[Any, Note] = {}
        """By ``compat.graph.node_key``, the notes since the oldest were forgotten."""
        self._older: dict[Any, Note] = {}
        self._mark: Any = None  # of the last note that was put

    def put(self, node: Any, note: Any) -> None:
        """Add a stack and a mark from the native core, whose backwards start without ``forget_oldest``."""
        mark = note[1]
        if mark is not self._mark or (mark is None and len(self.newer) > _MOST):
            self._mark = mark
            self.forget_oldest()
        self.newer[compat.graph.node_key(node)] = note

    def of(self, node: Any) -> Note | None:
        key = compat.graph.node_key(node)
        return self.newer.get(key) or self._older.get(key)

    def forget_oldest(self) -> None:  # each backward calls this when it starts
        if len(self.newer) > _MANY:
            self._older, self.newer = self.newer, {}

    def forget(self) -> None:
        self._older, self.newer, self._mark = {}, {}, None
