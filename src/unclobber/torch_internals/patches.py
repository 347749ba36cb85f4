"""What of torch and of Python is replaced by something of ours, in one list, and how it is put back."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dis import opmap
from types import FunctionType, MethodType, TracebackType
from typing import Any, NamedTuple

from ..model import PACKAGE, UnclobberError

_OURS = PACKAGE + os.sep
_RAISES = opmap["RAISE_VARARGS"], opmap["RERAISE"]

_INHERITED: Any = object()
"""Stands for an original that the home has only from a class above it."""

_lock = threading.RLock()


class Likeness:
    """What looks, compares, hashes and pickles as the original that it lies in the place of.

    Programs keep tables by function, and a table may be made before or after a replacement:
    ``torch.overrides.get_overridable_functions``, a ``__torch_function__`` with a dict of its own. Only a
    call and what Python's types themselves look up come to the replacement.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "__reduce_ex__":
            return lambda protocol: _reduced(original_of(self), protocol)
        return getattr(original_of(self), name)

    def __eq__(self, other: object) -> bool:
        return bool(original_of(self) == original_of(other))

    def __hash__(self) -> int:
        return hash(original_of(self))

    def __repr__(self) -> str:
        return repr(original_of(self))


class StandIn(Likeness):
    """A function in the place of another, which it looks like.

    Args:
        original: What it stands for: a function, or a method of a C type.
        run: What is called instead.
        binds: Whether it is a method of what it is looked up on; None if ``original`` says so itself.
    """

    __slots__ = ("__weakref__", "_binds", "_run", "_stands_for")

    def __init__(self, original: Any, run: Callable[..., Any], *, binds: bool | None = None) -> None:
        object.__setattr__(self, "_stands_for", original_of(original))
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_binds", hasattr(original, "__get__") if binds is None else binds)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return _run_of(self)(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None or not _binds_of(self) else MethodType(self, instance)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(original_of(self), name, value)


class AttributeStandIn(Likeness, property):
    """An attribute of a C type with another setter or getter, which looks like the original attribute.

    Args:
        original: What it stands for.
        setter: Called with the object and the value; it is to call the original's ``__set__``.
        getter: Called with the object, instead of the original's ``__get__``.
    """

    def __init__(
        self,
        original: Any,
        setter: Callable[[Any, Any], None] | None = None,
        getter: Callable[[Any], Any] | None = None,
    ) -> None:
        original = original_of(original)
        set_ = original.__set__ if setter is None else StandIn(original.__set__, setter)
        property.__init__(self, original.__get__ if getter is None else getter, set_, original.__delete__)
        property.__getattribute__(self, "__dict__").update(_stands_for=original, _set=set_)

    def __getattribute__(self, name: str) -> Any:
        if name == "__set__":  # torch hands it to a subclass's `__torch_function__`
            return property.__getattribute__(self, "_set")
        return super().__getattribute__(name)


_run_of: Callable[[StandIn], Callable[..., Any]] = StandIn.__dict__["_run"].__get__
_binds_of: Callable[[StandIn], bool] = StandIn.__dict__["_binds"].__get__


def original_of(one: Any) -> Any:
    """What ``one`` stands for; itself if it stands for nothing."""
    return object.__getattribute__(one, "_stands_for") if issubclass(type(one), Likeness) else one


def _reduced(original: Any, protocol: int) -> Any:
    """A function is pickled by its name, under which what stands for it lies."""
    if isinstance(original, FunctionType):
        return original.__qualname__
    return original.__reduce_ex__(protocol)


def hide_frames(error: BaseException) -> None:
    """Cut this package's frames out of the traceback of an exception of the program's.

    A ``RuntimeError`` that C has raised keeps them: ``evidence`` reads in them which backward torch refused.
    """
    entries: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    if not entries or isinstance(error, UnclobberError):
        return
    if type(error) is RuntimeError:
        last = entries[-1]
        code = last.tb_frame.f_code
        if _is_ours(last) or code.co_code[last.tb_lasti] not in _RAISES:
            return
    rebuilt: TracebackType | None = None
    for entry in reversed(entries):
        if not _is_ours(entry):
            rebuilt = TracebackType(rebuilt, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = rebuilt


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_OURS)


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

    def stand_in(self, home: Any, name: str, wrap: Callable[..., Callable[..., Any]], *more: Any) -> None:
        """Let what ``wrap`` makes be called in place of ``home.name``, and look like it, until ``undo``.

        Args:
            home: A module or class.
            name: A function or method, its own or inherited.
            wrap: Called with the original and ``more``; returns what is called instead.
            more: Further arguments for ``wrap``.
        """
        original = getattr(home, name)
        own = vars(home).get(name, original)
        lying: Any = StandIn(original, wrap(original, *more), binds=hasattr(own, "__get__"))
        if isinstance(own, staticmethod):
            lying = staticmethod(lying)
        self.replace(home, name, lying)

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
