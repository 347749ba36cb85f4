"""The torch versions on which the whole test suite was run; no other file lists them."""

from __future__ import annotations

import torch

from ..model import UnclobberError

TRIED = ((2, 6), (2, 8), (2, 9), (2, 10), (2, 11), (2, 12), (2, 13), (2, 14), (2, 15))
"""Tested (major, minor) versions, oldest first."""


def parsed(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)  # `2.15.0+cpu` or `2.16.0a0+git1234`


def require() -> None:
    """Check that torch is not too old."""
    oldest = ".".join(map(str, TRIED[0]))
    if parsed(torch.__version__) < TRIED[0]:
        raise UnclobberError(f"unclobber needs torch {oldest} or newer, and this is {torch.__version__}")


def untried() -> str | None:
    newest = ".".join(map(str, TRIED[-1]))
    if parsed(torch.__version__) <= TRIED[-1]:
        return None
    return f"torch {torch.__version__} is newer than {newest}, the newest that unclobber was tried on"
