"""How a report is to be rendered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """What the one who prints knows and a report doesn't: the terminal."""

    width: int = 80
    """Cells of a line of text."""
    colour: bool = False
    """Whether to put ANSI colours on."""
