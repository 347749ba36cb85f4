"""What every trainer's tests train: one tiny computation, right and wrong.

Each is mixed into a trainer's own kind of module, which gives :meth:`Gate.loss` a batch.
"""

from __future__ import annotations

import re
from pathlib import Path

from torch import nn

SOURCE = Path(__file__)


def line_of(text):
    """The line of this file that holds ``text``: where a story must point."""
    return next(number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


class Gate:
    """Nothing is written in place."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 1)

    def gate(self, x):
        return self.drop(self.inner(x)).sigmoid()

    def loss(self, x):
        return self.head(self.gate(x)).square().mean()


class Overwriting:
    """sigmoid keeps its result for backward, and the next line overwrites a part of it."""

    def gate(self, x):
        gate = super().gate(x)
        gate[:, 0] = 0.25  # the write
        return gate


class Copying:
    """The same program, written right."""

    def gate(self, x):
        gate = super().gate(x).clone()
        gate[:, 0] = 0.25
        return gate


class WritingSilently:
    """The same by a write that torch doesn't see."""

    def gate(self, x):
        gate = super().gate(x)
        gate.data[:, 0] = 0.25
        return gate


class WritingLeaf:
    """torch refuses the write itself."""

    def loss(self, x):
        self.inner.weight.mul_(0.5)
        return super().loss(x)


class Raising:
    """The user's own error, in the second step."""

    def __init__(self, error):
        super().__init__()
        self.error, self.steps = error, 0

    def loss(self, x):
        self.steps += 1
        if self.steps == 2:
            raise self.error
        return super().loss(x)


RESTORED = [
    "guard: 3 overwritten values restored (1 place), 8 bytes kept at peak",
    f"  gates.py:{line_of('# the write')} overwrites `self.drop(self.inner(x)).sigmoid()` (32 bytes), "
    f"saved in gates.py:{line_of(')).sigmoid()')}: restored 3 times",
]
"""What is said of three guarded steps of :class:`Overwriting`."""


def said_at_end(err):
    """The paragraphs that guard says, each in one line, with the file's name for its path."""
    unwrapped = re.sub(r"\n {4,}", " ", err)
    found = [re.sub(r"[^ ]*(gates\.py:)", r"\1", line) for line in unwrapped.splitlines()]
    begins = [at for at, line in enumerate(found) if line.startswith("guard: ")]
    return found[begins[0] : begins[0] + 2] if len(begins) == 1 else begins
