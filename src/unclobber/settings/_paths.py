"""Paths as reports show them."""

from __future__ import annotations

import os


def shown_path(path: str) -> str:
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the working directory is gone, or on another drive
        return path
    return path if relative.split(os.sep)[0] == os.pardir else relative
