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
    version = str(torch.__version__)
    if parsed(version) < TRIED[0]:
        raise UnclobberError(f"unclobber needs torch {_text(TRIED[0])} or newer, and this is {version}")


def untried() -> str | None:
    version = str(torch.__version__)
    if parsed(version) <= TRIED[-1]:
        return None
    return f"torch {version} is newer than {_text(TRIED[-1])}, the newest that unclobber was tried on"


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
