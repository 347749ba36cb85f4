"""The objects that a backward node keeps, read without running any unpack hook.

Since 2.10 torch shows the pack hook's result (``SavedTensor.data``). Before, only the tensor can be read, and
torch calls the unpack hook for it. unclobber's own hook then notes its argument and returns a substitute.
Every other hook is stopped before its first line, because a checkpoint's would run the program's code.
Delete the second way with 2.9.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from ._behaviour import behaviour
from ._modes import unseen_by_modes, without_modes
from .dispatcher import unseen_by_torch
from .graph import reader_of
from .tensors import storage_key_or_none

Unpack = Callable[[Any], torch.Tensor]

_DATA = vars(torch._C._autograd.SavedTensor).get("data")
with unseen_by_modes():
    no_memory = torch.empty(0, dtype=torch.bool, device="cpu")
"""Stand-in for a tensor that is not kept."""


def packed(raw: Any) -> Any:
    """Return what a pack hook made of a raw saved tensor, or the tensor; None if freed, and before 2.10."""
    return None if _DATA is None else _DATA.__get__(raw)


def raw_saved(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a backward node keeps: pairs of role (``self``, ``result``, ``tensors[0]``) and the object
    that the pack hook returned.

    The ``_raw_saved_*`` attributes are described in torch/autograd/graph.py and the notebook
    "hooks for saved tensors". Freed ones raise RuntimeError and are left out. Before 2.10 the objects of
    hooks that aren't ``recognizable`` are left out, too.
    """
    for role in _roles(node.__class__):
        if not behaviour.shows_packed:
            yield from _kept_under(node, role)
            continue
        try:
            value = getattr(node, f"_raw_saved_{role}")
        except RuntimeError:
            continue
        many = isinstance(value, (list, tuple))
        for index, saved in enumerate(value if many else (value,)):
            try:
                data = None if saved is None else packed(saved)
            except RuntimeError:
                continue
            yield (f"{role}[{index}]" if many else role), data


def freed_roles(node: Any) -> list[str]:
    return [role for role in _roles(node.__class__) if _is_freed(node, role)]


def _is_freed(node: Any, role: str) -> bool:
    """Return whether a node has freed what it saved under a role."""
    try:
        if behaviour.shows_packed:
            raw = getattr(node, f"_raw_saved_{role}")
            if isinstance(raw, (tuple, list)) or packed(raw) is not None:
                return False
            # None if freed or if nothing was saved. Only the former refuses; no hook runs for either.
            getattr(node, f"_saved_{role}")
        else:
            _unpacked(node, role, {})
    except RuntimeError as error:
        return "second time" in str(error)
    return False


@functools.lru_cache(maxsize=512)  # bounded: a custom Function's class is the user's
def _roles(kind: Any) -> tuple[str, ...]:
    return tuple(name.removeprefix("_raw_saved_") for name in dir(kind) if name.startswith("_raw_saved_"))


# --- before 2.10 ----------------------------------------------------------------------------------------


_Answers = dict[int | None, tuple[torch.Tensor, Any]]
"""By the storage of the substitute tensor: that tensor, and the unpack hook's argument."""


class _NodeQuestion(threading.local):
    answers: _Answers | None = None


_reading = _NodeQuestion()


def recognizable(unpack: Unpack) -> Unpack:
    """Wrap ``unpack`` so that ``raw_saved`` can read its argument without running the hook."""
    if behaviour.shows_packed:
        return unpack

    def recognized(kept: Any) -> torch.Tensor:
        """Unpack. While ``raw_saved`` reads a node, note the argument and return a substitute instead."""
        answers = _reading.answers
        if answers is None:
            return unpack(kept)
        with unseen_by_torch():
            instead = torch.empty(1)
        # Found by storage, because torch returns a new Python object for what a hook returns.
        answers[storage_key_or_none(instead)] = instead, kept
        return instead

    return recognized


def _nothing(kept: Any) -> torch.Tensor:
    raise AssertionError(f"nobody asks for {kept}")


_RECOGNIZED = recognizable(_nothing).__code__  # the code object that all recognizable hooks share


class _SomebodyElsesError(Exception):
    """An unpack hook that isn't recognizable was about to run."""


def _kept_under(node: Any, role: str) -> Iterator[tuple[str, Any]]:
    """Yield what a node keeps under a role: arguments of recognizable hooks, or tensors without a hook."""
    answers: _Answers = {}
    try:
        value = _unpacked(node, role, answers)
    except RuntimeError:
        return
    many = isinstance(value, (list, tuple))
    for index, element in enumerate(value if many else (value,)):
        key = storage_key_or_none(element) if isinstance(element, torch.Tensor) else None
        yield (f"{role}[{index}]" if many else role), answers[key][1] if key in answers else element


def _unpacked(node: Any, role: str, answers: _Answers) -> Any:
    """Return what torch hands out for a role; RuntimeError if it was freed or an unknown hook keeps it."""
    read = reader_of(node, role)  # outside of the context, which would stop this call
    before, _reading.answers = _reading.answers, answers
    try:
        with without_modes(), _NobodysHooks():  # a mode would be called when torch makes the tensor
            return read()
    except _SomebodyElsesError:
        raise RuntimeError("kept by a hook that is not ours") from None
    finally:
        _reading.answers = before


class _NobodysHooks:
    """Context that stops every Python function that C++ calls in this thread, except ``recognizable`` hooks.

    A profiler is called before the first line of each call, and its exception ends that call. If another one
    runs that can't be restored, the context refuses. No garbage is collected meanwhile, because finalizers
    are calls.
    """

    __slots__ = ("_collects", "_depth", "_inside", "_profiler")

    def __enter__(self) -> None:
        """Replace this thread's profiler. Raise if it can't be restored."""
        self._profiler = sys.getprofile()
        if self._profiler is not None and not hasattr(self._profiler, "__code__"):
            raise _SomebodyElsesError  # cProfile's, which sys.setprofile would not take back
        self._inside: FrameType | None = None
        self._depth = sys._getframe(1)
        self._collects = gc.isenabled()
        gc.disable()
        sys.setprofile(self._event)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        """Stop a call made by the frame that entered the context, unless it is a recognizable hook's."""
        if event == "call" and self._inside is None:
            if frame.f_code is _RECOGNIZED:
                self._inside = frame
            elif frame.f_back is self._depth and frame.f_code is not _EXIT:
                raise _SomebodyElsesError
        elif event == "return" and frame is self._inside:
            self._inside = None

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(self._profiler)
        if self._collects:
            gc.enable()


_EXIT = _NobodysHooks.__exit__.__code__
