"""A query of the program that may fail without harm to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def or_default(look: Callable[[], T], otherwise: T) -> T:
    """Return ``look()``, or ``otherwise`` if it raises."""
    try:
        return look()
    except Exception:
        return otherwise
