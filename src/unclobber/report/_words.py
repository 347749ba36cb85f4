"""Shared small pieces of wording, and names of operations and files.

Short, precise, no exclamation marks; the user's names go in backticks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..model import Finding, Fix, cell_name
from ..model.text import listing as listing
from ..model.text import plural as plural
from ..model.text import shape as shape
from ..model.text import size as size

SOLID_SPACE = "\N{NO-BREAK SPACE}"


def ordinal(number: int) -> str:
    """Return the ordinal of a 1-based number.

    Example:
        >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 102, 113)]
        ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '102nd', '113th']
    """
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def verified(fix: Fix) -> str:
    """Return how far a fix was proved by a run; empty if it was not.

    Example:
        >>> from unclobber.model import Fix
        >>> [verified(Fix("", verified=how)) for how in ("whole-run", "backward-3", False)]
        ['proved: the program then ends with the same results',
         'proved: losses and gradients are the same up to backward 3', '']
    """
    if not fix.verified:
        return ""
    if fix.verified == "whole-run":
        return "proved: the program then ends with the same results"
    backward = fix.verified.removeprefix("backward-")
    return f"proved: losses and gradients are the same up to backward {backward}"


def reliability(fix: Fix) -> str:
    """Return how reliable a fix is, as one clause; empty for advice in words.

    Example:
        >>> from unclobber.model import Edit, Fix
        >>> reliability(Fix("", edits=(Edit("/a.py", 1, "y *= 2", "y = y * 2"),)))
        'a candidate, which was not run'
    """
    if fix.verified or not fix.edits:
        return verified(fix)
    if fix.proved_by is None:
        return "a candidate, which was not run"
    return f"a candidate: {tick(fix.proved_by)} proves it or finds another"


def advice(fix: Fix) -> str:  # for formats without room for marks
    how = reliability(fix)
    return code_after(fix.title, fix.code) + (f" ({how})" if how else "")


def code_after(title: str, code: str | None) -> str:
    """Return ``title: `code` ``; the title alone if there is no code to write."""
    return f"{title}: `{flattened(code)}`" if code else title


def severities(findings: Sequence[Finding]) -> list[str]:  # without zeros
    left = [finding.severity for finding in findings if not finding.repaired]
    counts = [plural(left.count(severity), severity) for severity in ("error", "warning") if severity in left]
    repaired = len(findings) - len(left)
    return [*counts, f"{repaired} repaired by guard"] if repaired else counts


def tensor(sizes: Sequence[int], dtype: str) -> str:
    """Return shape and dtype of a tensor in a few words.

    Example:
        >>> tensor((3, 4), "float32"), tensor((5,), "int64"), tensor((), "float64")
        ('3x4 float32', '5 int64', 'float64 scalar')
    """
    return f"{shape(sizes)} {dtype}" if sizes else f"{dtype} scalar"


# Packages of pip and of Debian, and the interpreter's own modules.
_LIBRARY_ROOT = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]|^.*[/\\]lib[/\\]python3\.\d+[/\\]")


def path(absolute: str) -> str:
    """Return a path as short as it stays clear: below the working directory it is relative.

    An installed file is named by its path inside the library: ``torch/nn/functional.py``. A report that is
    sent on doesn't name the user's home, which is ``~``.
    """
    if (cell := cell_name(absolute)) is not None:
        return cell
    if (shorter := _LIBRARY_ROOT.sub("", absolute)) and shorter != absolute:
        return shorter
    if not os.path.isabs(absolute):
        return absolute
    try:
        relative = os.path.relpath(absolute)
    # The working directory is gone, or on another drive (tests/unit/report/test_report_words.py).
    except (OSError, ValueError):
        return absolute
    if relative.split(os.sep)[0] != os.pardir:
        return relative
    home = os.path.join(os.path.expanduser("~"), "")
    return os.path.join("~", absolute.removeprefix(home)) if absolute.startswith(home) else absolute


def solid(text: str) -> str:
    """Return the text with solid spaces, at which :mod:`._cells` breaks a line only if it must.

    Example:
        >>> solid("version 0 -> 1").split(" ")
        ['version\\xa00\\xa0->\\xa01']
    """
    return text.replace(" ", SOLID_SPACE)


def flattened(text: str) -> str:
    """Return source text on one line: each run of white space becomes one space.

    Example:
        >>> flattened("f(a,\\n    b)")
        'f(a, b)'
    """
    return " ".join(text.split())


def tick(name: str) -> str:
    """Return a user's name or expression in backticks, on one line, of at most 60 characters.

    Example:
        >>> tick("d[:]")
        '`d[:]`'
    """
    name = flattened(name)
    return f"`{name if len(name) <= 60 else name[:59] + '…'}`"
