"""The line that is charged: the innermost one outside torch, the standard library and this package.

A user of a model from a package has one line of their own, ``model(x)``; the package's lines keep the memory,
so those are named, with the user's line in addition.
"""

from __future__ import annotations

import os
import sysconfig
from functools import lru_cache

import torch

from ..model import PACKAGE
from ..source import Instruction, Stack, resolve, user_frame
from ._facts import Location

_TORCH_AND_OWN = (os.path.join(os.path.dirname(torch.__file__), ""), os.path.join(PACKAGE, ""))
_STANDARD = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))


def innermost(stack: Stack) -> Instruction | None:  # None if the whole stack is torch's
    for code, lasti in zip(stack[::2], stack[1::2], strict=False):
        if not _machinery(code.co_filename):
            return Instruction(code, lasti)
    return None


def key(stack: Stack) -> tuple[object, ...]:  # it is equal when the program is run again
    instruction = innermost(stack)
    if instruction is None:
        return ()
    code, lasti = instruction
    return (code.co_filename, code.co_qualname, code.co_firstlineno, lasti)


@lru_cache(maxsize=4096)
def _place(files: tuple[str, ...], charged: Instruction, user: Instruction | None) -> Location | None:
    """Return the location of a line. ``files`` is part of the cache's key, because code objects of equal
    text in two files are equal."""
    site = resolve(charged)
    if site is None:
        return None
    above = None if user is None else resolve(user)
    called_from = None if above is None else (above.path, above.line)
    return Location(site.path, site.line, site.function, site.source, called_from)


def place(stack: Stack) -> Location | None:
    """Return the line to charge, looked up in its source; None if there is none."""
    instruction = innermost(stack)
    if instruction is None:
        return None
    user = user_frame(stack)
    # The line to charge is the user's own, which needs no second place.
    if user is not None and user.code is instruction.code:
        user = None
    files = (instruction.code.co_filename, "" if user is None else user.code.co_filename)
    return _place(files, instruction, user)


@lru_cache(maxsize=4096)
def _machinery(filename: str) -> bool:
    """Return whether a file is torch's, the standard library's or this package's."""
    # `<stdin>` and the like are the user's code, and no paths.
    if filename.startswith("<"):
        return filename.startswith("<frozen ")
    path = os.path.abspath(filename)
    # site-packages is a folder inside of the standard library's.
    parts = path.split(os.sep)
    installed = "site-packages" in parts or "dist-packages" in parts
    return path.startswith(_TORCH_AND_OWN) or (path.startswith(_STANDARD) and not installed)
