"""Variables of frames, read so that the interpreter keeps no tensor alive."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any


def variables_of(frame: FrameType) -> dict[str, Any]:
    """Return a copy of the frame's variables, and leave none in the frame."""
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return named(frame.f_locals)
    local = frame.f_locals
    variables = named(local)
    # Before Python 3.13 reading `f_locals` leaves a dict in the frame, which would keep tensors alive that
    # the function deletes. At most three references (the frame's, this one and the call's) mean that the
    # program doesn't hold the dict itself from `locals()`: tests/unit/source/test_owners.py.
    if type(local) is dict and sys.getrefcount(local) <= 3:
        local.clear()
    return variables


def named(scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the variables of a scope, without those that no program can name."""
    return {key: value for key, value in dict(scope).items() if isinstance(key, str) and key.isidentifier()}
