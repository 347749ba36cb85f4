"""Small pieces of wording: counts, sizes, shapes, lists, names of operations and files.

Short, precise, no exclamation marks; the user's names go in backticks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..model import Fix
from ..model import listing as listing

SOLID_SPACE = "\N{NO-BREAK SPACE}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Count a noun: ``nouns`` is its plural where ``noun + "s"`` is not.

    Example:
        >>> plural(1, "write"), plural(5, "write"), plural(0, "copy", "copies")
        ('1 write', '5 writes', '0 copies')
    """
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def verified(fix: Fix) -> str:
    """How far a way out was run beside the script as it is; empty where it wasn't.

    Example:
        >>> from unclobber.model import Fix
        >>> [verified(Fix("", verified=how)) for how in ("whole-run", "backward-3", False)]
        ['verified: to the end', 'verified: up to backward 3', '']
    """
    if not fix.verified:
        return ""
    if fix.verified == "whole-run":
        return "verified: to the end"
    return f"verified: up to backward {fix.verified.removeprefix('backward-')}"


def ordinal(number: int) -> str:
    """The number of a place in a row, 1-based.

    Example:
        >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 102, 113)]
        ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '102nd', '113th']
    """
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def size(count: int) -> str:
    """A number of bytes in decimal units, two or three digits.

    Example:
        >>> size(1), size(4), size(1234), size(999_999), size(2_500_000_000)
        ('1 byte', '4 bytes', '1.2 kB', '1.0 MB', '2.5 GB')
    """
    if count < 1000:
        return plural(count, "byte")
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if round(value, 1) < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def tensor(shape: Sequence[int], dtype: str) -> str:
    """Shape and dtype of a tensor in one breath.

    Example:
        >>> tensor((3, 4), "float32"), tensor((5,), "int64"), tensor((), "float64")
        ('3x4 float32', '5 int64', 'float64 scalar')
    """
    return f"{'x'.join(map(str, shape))} {dtype}" if shape else f"{dtype} scalar"


_LIBRARY_ROOT = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]|^.*[/\\]lib[/\\]python3\.\d+[/\\]")


def path(absolute: str) -> str:
    """A path as short as it stays clear: below the working directory it is relative.

    What is installed is called by its path inside the library: ``torch/nn/functional.py``.
    """
    if (shorter := _LIBRARY_ROOT.sub("", absolute)) and shorter != absolute:
        return shorter
    if not os.path.isabs(absolute):
        return absolute
    try:
        relative = os.path.relpath(absolute)
    except (OSError, ValueError):  # the working directory is gone, or on another drive
        return absolute
    return absolute if relative.startswith(os.pardir) else relative


def solid(text: str) -> str:
    """The text with spaces at which :mod:`._cells` breaks a line only if it must.

    Example:
        >>> solid("version 0 -> 1").split(" ")
        ['version\\xa00\\xa0->\\xa01']
    """
    return text.replace(" ", SOLID_SPACE)


def one_line(text: str) -> str:
    """Source text on one line: each stretch of white space becomes one space.

    Example:
        >>> one_line("f(a,\\n    b)")
        'f(a, b)'
    """
    return " ".join(text.split())


def tick(name: str) -> str:
    """A name or an expression of the user's, in backticks, on one line and not endless.

    Example:
        >>> tick("d[:]")
        '`d[:]`'
    """
    name = one_line(name)
    return f"`{name if len(name) <= 60 else name[:59] + '…'}`"
