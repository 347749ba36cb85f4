"""What of torch and of Python is replaced by something of ours, in one list, and how it is put back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_INHERITED: Any = object()
"""Stands for an original that the home has only from a class above it."""

_lock = threading.RLock()


class Patch(NamedTuple):
    """One attribute that is ours now."""

    home: Any
    """The module or class."""
    name: str
    original: Any
    """What lay in the home's own ``__dict__``."""
    wrapper: Any
    """What lies there now."""

    def intact(self) -> bool:
        """Whether it still lies there: the program may have put something of its own in its place."""
        return vars(self.home).get(self.name) is self.wrapper

    def undo(self) -> None:
        if not self.intact():
            return
        if self.original is _INHERITED:
            delattr(self.home, self.name)  # the inherited one shows again
        else:
            setattr(self.home, self.name, self.original)


installed: list[Patch] = []
"""All that is replaced now, oldest first. Nothing of torch is replaced but by way of this list."""


class Patches:
    """Replacements that are put back together, the newest first; as a context, at its end.

    What costs something while nobody looks, as a place among torch's listeners, is given to ``when_awake``:
    between ``sleep`` and the next ``wake`` the replacements stay, and pass everything on.

    Example:
        >>> with Patches() as patches:
        ...     patches.replace(torch.Tensor, "numel", lambda tensor: -1)
        ...     torch.ones(2).numel()
        -1
        >>> torch.ones(2).numel()
        2
    """

    def __init__(self) -> None:
        self._ends: list[Callable[[], None]] = []
        self._newest: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        """The newest replacement of each place: the home's ``__dict__``, the name, what is to lie there."""
        self._begins: list[Callable[[], Callable[[], None]]] = []
        self._sleeps: list[Callable[[], None]] = []
        self.awake = False
        """Whether somebody looks."""

    def replace(self, home: Any, name: str, wrapper: Any) -> None:
        """Let ``home.name`` be ``wrapper`` until ``undo``.

        Args:
            home: A module or class.
            name: An attribute, its own or inherited.
            wrapper: What ``vars(home)`` is to hold: a class method as ``classmethod``.
        """
        before = vars(home).get(name, _INHERITED)
        with _lock:
            setattr(home, name, wrapper)
            patch = Patch(home, name, before, vars(home)[name])
            installed.append(patch)
        self._newest[id(home), name] = vars(home), name, patch.wrapper
        self._ends.append(lambda: _put_back(patch))

    def at_undo(self, end: Callable[[], None]) -> None:
        """Call ``end`` at ``undo``, when what came after it has been put back."""
        self._ends.append(end)

    def when_awake(self, begin: Callable[[], Callable[[], None]]) -> None:
        """Call ``begin`` at each ``wake``, and what it returns at the ``sleep`` that follows."""
        self._begins.append(begin)

    def intact(self) -> bool:
        """Whether every replacement still lies where it was put, or under a newer one of these."""
        for names, name, wrapper in self._newest.values():  # noqa: SIM110  (asked at each entry)
            if names.get(name) is not wrapper:
                return False
        return True

    def wake(self) -> None:
        """Somebody looks: begin whatever was given to ``when_awake``, the oldest first."""
        self.awake = True
        for begin in self._begins:
            self._sleeps.append(begin())

    def sleep(self) -> None:
        """Nobody looks any more: end all that, the newest first."""
        self.awake = False
        while self._sleeps:
            self._sleeps.pop()()

    def undo(self) -> None:
        """Put everything back as it was, but for what the program has replaced meanwhile."""
        self.sleep()
        self._begins.clear()
        self._newest.clear()
        while self._ends:
            self._ends.pop()()

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()


def _put_back(patch: Patch) -> None:
    with _lock:
        patch.undo()
        installed[:] = [other for other in installed if other is not patch]
