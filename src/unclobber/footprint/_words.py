"""Short names of source locations."""

from __future__ import annotations

import os

from ._facts import Location


def short(place: Location | None) -> str:
    """Return ``train.py:14``, with the folder's name if the file name alone says little."""
    if place is None:
        return "(unknown line)"
    folder, name = os.path.split(place.path)
    if name in ("__init__.py", "__main__.py"):
        name = f"{os.path.basename(folder)}/{name}"
    return f"{name}:{place.line}"
