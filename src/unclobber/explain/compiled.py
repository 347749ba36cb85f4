"""Functions that ``torch.compile`` compiled, and the code objects that replace them on a stack.

Dynamo replaces a compiled function's code object by one of its own. It has the function's name and file, but
each of its instructions has the function's first line, which is the decorator's. So such a frame counts as a
library's, and the line that called the function is the program's.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from ..source import is_library_path
from ..torch_internals import compat


class Compiled(NamedTuple):
    """A function of the program that was compiled."""

    name: str
    path: str
    line: int
    """The function's first line, 1-based; the decorator's if it has one."""


def now() -> int:
    """Return the current time for ``since``, in microseconds since the epoch."""
    return time.time_ns() // 1000


def since(moment: int) -> tuple[Compiled, ...]:
    """Return the program's functions that were compiled after ``moment``, each once, in order of first
    compilation.
    """
    compiled = [
        Compiled(name, path, line)
        for name, path, line in compat.compilations(moment)
        if not is_library_path(path)
    ]
    return tuple(dict.fromkeys(compiled))
