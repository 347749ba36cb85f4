"""Settings and rates, with an error of the caller's kind if they are wrong; loads no torch."""

from __future__ import annotations

from typing import Any

from ..model import UnclobberError
from ..settings import ProjectSettings


def rate(value: Any, where: str, error: type[Exception]) -> float:
    """Return a fingerprint rate from 0 to 1; raise an `error` that names `where` for anything else."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise error(f"{where} is {value!r}: it is a number from 0 to 1")
    return share


def settings_in(folder: str, error: type[Exception]) -> ProjectSettings:
    try:
        return ProjectSettings.of(folder)
    except UnclobberError as problem:
        raise error(str(problem)) from None
