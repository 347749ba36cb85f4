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
    links: bool = False
    """Whether to make paths links, where there is colour."""
    encoding: str | None = None
    """Of the stream: what it lacks is shown as an escape; None for one that has every character."""
