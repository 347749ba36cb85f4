"""What torch itself says otherwise in other versions than the one that the tests were written on.

Its words come up in our reports: names of nodes and operations, and its own sentences. A text that differs
from the expected one by words of this table alone says the same, on the versions that the row names. A fault
of ours never gets a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import pytest
import torch

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
"""Major and minor number of the torch that is installed."""
WRITTEN_ON = (2, 13)

quiet_script = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
"""For what runs torch's own code that uses it, as ``torch.func.jvp`` does. A ``DeprecationWarning`` up to
2.13, and a ``FutureWarning`` since."""


class Row(NamedTuple):
    """A word, and what other versions have instead."""

    word: str
    """On ``WRITTEN_ON``."""
    other: str
    first: tuple[int, int]
    last: tuple[int, int]
    """The versions that say ``other``; both are included."""
    why: str


NEWEST = (2, 99)
ROWS = (
    Row("Fill3", "Fill2", (2, 14), NEWEST, "`fill_` with a number is numbered anew in the derivative table"),
    Row("copy_", "fill_", (2, 14), NEWEST, "`x[0] = 1` fills, where it copied a number's tensor before"),
)


def here(word: str, version: tuple[int, ...] = TORCH) -> str:
    """The word that this torch has for one of ``WRITTEN_ON``."""
    return next((row.other for row in _rows(version) if row.word == word), word)


def same(text: str, expected: str, version: tuple[int, ...] = TORCH) -> bool:
    """Whether ``text`` is the expected one, but for words of the table."""
    if text == expected:
        return True
    found, wanted = (re.findall(r"\w+|\W", one) for one in (text, expected))
    pairs = {(row.word, row.other) for row in _rows(version)}
    return len(found) == len(wanted) and all(
        one == other or (other, one) in pairs for one, other in zip(found, wanted, strict=True)
    )


def _rows(version: tuple[int, ...]) -> Iterable[Row]:
    return (row for row in ROWS if row.first <= version <= row.last)
