"""Rates, with an error of the caller's kind if they are wrong; loads no torch."""

from __future__ import annotations

from typing import Any


def rate(value: Any, where: str, error: type[Exception]) -> float:
    """Return a fingerprint rate from 0 to 1; raise an `error` that names `where` for anything else."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise error(f"{where} is {value!r}: it is a number from 0 to 1")
    return share
