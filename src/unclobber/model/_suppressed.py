"""A finding that the program's author has suppressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._finding import Finding

SuppressedBy = Literal["comment", "settings", "baseline"]
"""``comment``: ``# unclobber: ignore`` on the line of the write; ``settings``: ``select``, ``ignore`` or
``per-file-ignores``, of pyproject.toml or the command line; ``baseline``: a file of known findings."""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that is counted, but not reported, and that fails no run."""

    finding: Finding
    by: SuppressedBy
