"""Recent writes to the memory of views, for a view that torch refuses to use after one.

A view made under ``no_grad``, by ``chunk`` or by a custom Function can't be read once its base, or another
view of that, was written: torch says so at the reading line. Nobody need have saved that memory, so the
ledger may know nothing of it.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import NamedTuple

import torch

from ._frames import Stack

_MOST = 256


class ViewWrite(NamedTuple):
    """One write, just before it happened."""

    base: weakref.ref[torch.Tensor]
    """The tensor whose memory it was."""
    version: int
    operation: str
    stack: Stack


_recent: deque[ViewWrite] = deque(maxlen=_MOST)


def concerns(tensor: torch.Tensor) -> bool:
    """Whether a write to ``tensor``, whose memory others hold, may be of interest: it is a view that autograd
    knows of, or has a history that its views share."""
    return tensor._base is not None or tensor.grad_fn is not None


def note(tensor: torch.Tensor, version: int, operation: str, stack: Stack) -> None:
    """``tensor``, of which ``concerns`` holds, is about to be written at this version."""
    base = tensor if tensor._base is None else tensor._base
    _recent.append(ViewWrite(weakref.ref(base), version, operation, stack))


def last(view: torch.Tensor) -> ViewWrite | None:
    """The newest write to the memory of ``view``; None where a later one went unseen, or it is not known."""
    base = view._base
    for write in reversed(_recent):
        if write.base() is base:
            return write if write.version + 1 == view._version else None
    return None


def install() -> None:
    """Nothing is known of what was written before."""


def uninstall() -> None:
    """Forget everything."""
    _recent.clear()
