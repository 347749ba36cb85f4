"""The choices that all profiles make, by one generator of random numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


class Writer:
    """One drawing of one program.

    Args:
        rng: Python's, or Hypothesis's, which shrinks a failing program towards the first of each choice.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: list[str] = []
        """Variables that statements may use, oldest first."""
        self._numbers: dict[str, int] = {}

    def fresh(self, letter: str) -> str:
        """A new variable."""
        number = self._numbers[letter] = self._numbers.get(letter, -1) + 1
        return f"{letter}{number}"

    def made(self, letter: str) -> list[str]:
        """All variables of this letter, oldest first."""
        return [f"{letter}{number}" for number in range(self._numbers.get(letter, -1) + 1)]

    def pick(self, names: Iterable[str] | None = None) -> str:
        """A variable, late ones more often."""
        among = self.names if names is None else list(names)
        return self.rng.choice(among[-4:] if self.rng.random() < 0.6 else among)

    def weighted(self, kinds: Mapping[T, float]) -> T:
        """One of these, as often as its number says."""
        return self.rng.choices(list(kinds), list(kinds.values()))[0]


def numbered(template: str) -> str:
    """A template of the tables for ``str.format`` with a tensor and others, in a program without ``F``."""
    places = {"{v}": "{0}", "{a}": "{1}", "{b}": "{2}"}
    text = re.sub(r"\{[vab]\}", lambda place: places[place[0]], template)
    return re.sub(r"\bF\.", "torch.nn.functional.", text)
