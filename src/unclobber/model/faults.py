"""Internal errors: a query of the program that may fail without harm to it, and the sentence about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from ._about import PACKAGE
from .text import wanted_memory

T = TypeVar("T")

_LONGEST = 200
_HERE = PACKAGE + os.sep


def or_default(look: Callable[[], T], otherwise: T) -> T:
    try:
        return look()
    except Exception:
        return otherwise


def internal_error_in(what: str, error: Exception) -> str:
    """Return a sentence about an internal error, without its full stop.

    It keeps no reference to the error, whose frames hold the program's tensors.
    """
    if (wanted := or_default(lambda: wanted_memory(error), None)) is not None:
        return f"{what}, because there was no memory for it ({wanted} wanted)"
    kind = type(error).__name__
    # The error may be of the program's own class, whose `__str__` may raise in turn.
    first = or_default(lambda: " ".join(str(error).split()), "")
    text = f"{kind}: {first}" if first else kind
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    place = or_default(lambda: _place(error.__traceback__), "")
    return f"{what}: {text}{place}; please report this fault of unclobber's"


def _place(trace: TracebackType | None) -> str:
    """Return `` (source/sites.py:214)``: the innermost line of unclobber's. Empty if there is none."""
    from traceback import walk_tb  # slow to import

    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(trace)]
    own = [(path.removeprefix(_HERE), line) for path, line in frames if path.startswith(_HERE)]
    return f" ({own[-1][0].replace(os.sep, '/')}:{own[-1][1]})" if own else ""
