"""The options of a rendered report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Facts about the terminal, which the caller knows and a report doesn't."""

    width: int = 80  # width of a text line, in cells
    colour: bool = False  # whether to add ANSI colours
    links: bool = False  # whether to make paths links, if there is colour
    encoding: str | None = None
    """Encoding of the stream, in which missing characters are shown as escapes; None if it has every
    character."""
