"""Replacements of attributes of torch and Python, in one list, and their restoration."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from copy import copy
from dis import opmap
from inspect import isroutine
from types import FunctionType, MethodType, TracebackType
from typing import Any, NamedTuple

from ..model import PACKAGE, UnclobberError

_OURS = PACKAGE + os.sep
_RAISES = opmap["RAISE_VARARGS"], opmap["RERAISE"]

_INHERITED: Any = object()  # stand-in for an original that the home only inherits from a class above it

_lock = threading.RLock()


class Likeness:
    """Object that looks, compares, hashes and pickles as the original that it replaces.

    Programs keep tables by function, and a table may be made before or after a replacement:
    ``torch.overrides.get_overridable_functions``, a ``__torch_function__`` with a dict of its own. Only calls
    and the look-ups of Python's types themselves reach the replacement.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "__reduce_ex__":
            return lambda protocol: _reduced(self, protocol)
        if name == "__deepcopy__" and callable(self):
            return lambda memo: self
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
        original: The replaced function, or method of a C type.
        run: The function that is called instead.
        binds: Whether it is a method of what it is looked up on; None if ``original`` says so itself.
    """

    __slots__ = ("__weakref__", "_binds", "_run", "_stands_for")

    def __init__(self, original: Any, run: Callable[..., Any], *, binds: bool | None = None) -> None:
        object.__setattr__(self, "_stands_for", original_of(original))
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_binds", hasattr(original, "__get__") if binds is None else binds)
        if isinstance(run, FunctionType) and isroutine(original):  # a callable object has no such name
            run.__qualname__ = original.__qualname__  # Python's error about wrong arguments has this name

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
        original: The replaced attribute.
        setter: Called with the object and the value; must call the original's ``__set__``.
        getter: Called with the object, instead of the original's ``__get__``.
    """

    def __init__(
        self,
        original: Any,
        setter: Callable[[Any, Any], None] | None = None,
        getter: Callable[[Any], Any] | None = None,
    ) -> None:
        """Copy the original's descriptor methods, with those that are given instead."""
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


def original_of(value: Any) -> Any:
    return object.__getattribute__(value, "_stands_for") if issubclass(type(value), Likeness) else value


def _reduced(lying: Likeness, protocol: int) -> Any:
    """Return a function's name if the replacement is found under it, else how the original is pickled."""
    original = original_of(lying)
    name = original.__qualname__ if isinstance(original, FunctionType) else original.__reduce_ex__(protocol)
    # `torch.utils.dlpack.to_dlpack` is named `torch._C._to_dlpack`, which isn't replaced.
    at_home = isinstance(name, str) and getattr(sys.modules.get(original.__module__), name, lying) is original
    return (copy, (original,)) if at_home else name


def hide_frames(error: BaseException) -> None:
    """Cut this package's frames out of the traceback of an exception of the program's.

    A ``RuntimeError`` that C has raised keeps them: ``explain`` reads in them which backward torch refused.
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
        if _is_own(last) or code.co_code[last.tb_lasti] not in _RAISES:
            return
    rebuilt: TracebackType | None = None
    for entry in reversed(entries):
        if not _is_own(entry):
            rebuilt = TracebackType(rebuilt, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    error.__traceback__ = rebuilt


def _is_own(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_OURS)


class Patch(NamedTuple):
    """A replaced attribute of a module or class."""

    home: Any  # the module or class
    name: str
    original: Any  # the former value in the home's own `__dict__`, or `_INHERITED`
    wrapper: Any  # the present value there

    def undo(self) -> None:
        """Restore the original, unless the program has replaced this in turn, and take it off the list."""
        with _lock:
            if vars(self.home).get(self.name) is self.wrapper:
                if self.original is _INHERITED:
                    delattr(self.home, self.name)  # the inherited one shows again
                else:
                    setattr(self.home, self.name, self.original)
            installed[:] = [other for other in installed if other is not self]


installed: list[Patch] = []
"""All present replacements, oldest first; nothing else of torch is replaced (test_the_list_is_complete)."""


class Patches:
    """Replacements that are undone together, the newest first; as a context, at its end.

    Costly parts, such as a place among torch's listeners, are given to ``while_active``. After ``deactivate``
    the replacements stay, and pass every call on until the next ``activate``.

    Example:
        >>> with Patches() as patches:
        ...     patches.replace(torch.Tensor, "numel", lambda tensor: -1)
        ...     torch.ones(2).numel()
        -1
        >>> torch.ones(2).numel()
        2
    """

    def __init__(self) -> None:
        """Start with no replacement, dormant."""
        self._ends: list[Callable[[], None]] = []
        self._newest: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
        """The newest replacement of each place: the home's ``__dict__``, the name, and the wrapper."""
        self._begins: list[Callable[[], Callable[[], None]]] = []
        self._deactivations: list[Callable[[], None]] = []
        self.active = False  # whether any client is notified now

    def replace(self, home: Any, name: str, wrapper: Any) -> None:
        """Replace ``home.name`` by ``wrapper`` until ``undo``.

        Args:
            home: A module or class.
            name: An attribute, its own or inherited.
            wrapper: The new value in ``vars(home)``: a ``classmethod`` object for a class method.
        """
        before = vars(home).get(name, _INHERITED)
        with _lock:
            setattr(home, name, wrapper)
            patch = Patch(home, name, before, vars(home)[name])
            installed.append(patch)
        self._newest[id(home), name] = vars(home), name, patch.wrapper
        self._ends.append(patch.undo)

    def stand_in(self, home: Any, name: str, wrap: Callable[..., Callable[..., Any]], *more: Any) -> None:
        """Let what ``wrap`` makes be called in place of ``home.name``, and look like it, until ``undo``.

        Args:
            home: A module or class.
            name: A function or method, its own or inherited.
            wrap: Called with the original and ``more``; returns what is called instead.
        """
        original = getattr(home, name)
        own = vars(home).get(name, original)
        within = _run_of(original) if type(original) is StandIn else original
        lying: Any = StandIn(original, wrap(within, *more), binds=hasattr(own, "__get__"))
        if isinstance(own, staticmethod):
            lying = staticmethod(lying)
        self.replace(home, name, lying)

    def attribute(self, home: Any, name: str, **instead: Callable[..., Any]) -> None:
        """Replace a C type's attribute, its own or inherited, by an ``AttributeStandIn`` until ``undo``."""
        self.replace(home, name, AttributeStandIn(getattr(home, name), **instead))

    def precede(self, home: Any, name: str, before: Callable[..., None]) -> None:
        """Call ``before`` in front of ``home.name``, with the same arguments, until ``undo``."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                before(*args, **kwargs)
                return original(*args, **kwargs)

            return wrapper

        self.stand_in(home, name, wrap)

    def at_undo(self, end: Callable[[], None]) -> None:
        self._ends.append(end)  # after all later replacements have been undone

    def while_active(self, begin: Callable[[], Callable[[], None]]) -> None:
        """Call ``begin`` at each ``activate``, and what it returns at the ``deactivate`` that follows."""
        self._begins.append(begin)

    def intact(self) -> bool:
        """Return whether every replacement is still in its place, or below a newer one of these."""
        for names, name, wrapper in self._newest.values():  # noqa: SIM110  (runs at each entry)
            if names.get(name) is not wrapper:
                return False
        return True

    def activate(self) -> None:  # the oldest first
        self.active = True
        for begin in self._begins:
            self._deactivations.append(begin())

    def deactivate(self) -> None:  # the newest first
        self.active = False
        while self._deactivations:
            self._deactivations.pop()()

    def undo(self) -> None:
        """Undo all replacements, except where the program has put its own over one."""
        self.deactivate()
        self._begins.clear()
        self._newest.clear()
        while self._ends:
            self._ends.pop()()

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()
