"""Code that ``torch.compile`` made: which functions, and what stands in for them on a stack.

Dynamo puts a code object of its own in the place of a compiled function's. It has the function's name
and file, but each of its instructions bears the function's first line, which is the decorator's. So on
a stack such a frame is a library's, and the line that called the function is the user's.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from ..torch_internals import compat


class Compiled(NamedTuple):
    """A function of the user's that was compiled."""

    name: str
    path: str
    line: int
    """Its first, which is the decorator's where it has one."""


def now() -> int:
    """A moment for ``since``."""
    return time.time_ns() // 1000


def since(moment: int) -> tuple[Compiled, ...]:
    """The functions that were compiled after a moment, each once, in the order of their first time."""
    from .sites import is_library_path

    found = [
        Compiled(name, path, line)
        for name, path, line in compat.compilations(moment)
        if not is_library_path(path)
    ]
    return tuple(dict.fromkeys(found))
