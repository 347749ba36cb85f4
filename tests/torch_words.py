"""What torch itself says otherwise in other versions than the one that the tests were written on.

Its words come up in our reports: names of nodes and operations, and its own sentences. A text that differs
from the expected one by words of this table alone says the same, on the versions that the row names. A fault
of ours never gets a row.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from typing import NamedTuple

import pytest

TORCH = tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])
"""Major and minor number of the torch that is installed."""
WRITTEN_ON = (2, 13)

quiet_script = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
"""For what runs torch's own code that uses it, as ``torch.func.jvp`` does. A ``DeprecationWarning`` up to
2.13, and a ``FutureWarning`` since."""

QUIET: tuple[tuple[str, tuple[int, int]], ...] = (
    ("Converting a tensor with requires_grad=True to a scalar", (2, 9)),
    ("`torch.cpu.amp.autocast", (2, 4)),
    ("You are using `torch.load` with `weights_only=False`", (2, 5)),
)
"""Warnings that torch gives of its own code or of what programs do, and the last version that gives them."""


def quiet_filters(version: tuple[int, ...] = TORCH) -> list[str]:
    """What pytest is to ignore although warnings are errors."""
    return [f"ignore:{re.escape(text)}" for text, last in QUIET if version <= last]


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


def name_in_sentence(node: str, version: tuple[int, ...] = TORCH) -> str:
    """What torch's sentences call a node: ``Exp`` for ``ExpBackward0`` since 2.13, and its name before."""
    return re.sub(r"Backward0?(\d*)$", r"\1", node) if version >= (2, 13) else node


SENTENCES: tuple[tuple[str, str, tuple[int, int]], ...] = (
    (r"(utput \d+ of \w+?)Backward0?(\d*)\b", r"\1\2", (2, 12)),
    (r"(utput \d+ of )torch::autograd::CopySlices\b", r"\1Fill3", (2, 12)),
    (r"set_detect_anomaly\(True\)\.$", "set_detect_anomaly(True, check_nan=False).", (2, 12)),
    (
        r"To work around you can make a clone to get a normal tensor and use it in autograd\.$",
        "Please do not use Tensors created in inference mode in computation tracked by autograd. To work "
        "around this, you can make a clone to get a normal tensor and use it in autograd, or use "
        "`torch.no_grad()` instead of `torch.inference_mode()`.",
        (2, 9),
    ),
)
"""What torch's own messages said otherwise: a pattern, what stands there on ``WRITTEN_ON``, and the last
version that says the other."""


def as_written(message: str | None, version: tuple[int, ...] = TORCH) -> str | None:
    """A message of the torch that is installed, in the words of ``WRITTEN_ON``."""
    for pattern, words, last in SENTENCES if message is not None else ():
        if version <= last:
            message = re.sub(pattern, words, message)
    return message


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
