"""A look at the program that may fail without harm to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def asked(look: Callable[[], T], otherwise: T) -> T:
    """What a look at the program gives, ``otherwise`` where a fault of ours prevents it."""
    try:
        return look()
    except Exception:
        return otherwise
