"""The options of a rendered report, and the abilities of a stream."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Facts about the terminal, which the caller knows and a report doesn't."""

    width: int = 80  # width of a text line, in cells
    colour: bool = False  # whether to add ANSI colours
    links: bool = False  # whether to make paths links, if there is colour
    encoding: str | None = None
    """Encoding of the stream, whose missing characters are shown as escapes; None if it has every one."""


def options_for(stream: TextIO | None) -> RenderOptions:
    """Return the width, colour and links of a terminal; 80 columns without colour for other streams.

    ``COLUMNS`` sets the width of any stream. A ``NO_COLOR`` that isn't empty (https://no-color.org) and
    ``TERM=dumb`` turn colour off. A ``FORCE_COLOR`` that isn't empty (https://force-color.org) turns it on
    for any stream; ``NO_COLOR`` takes precedence. Only a terminal gets links.
    """
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    if stream is None or getattr(stream, "closed", False):
        return RenderOptions(width=width or 80)
    encoding = getattr(stream, "encoding", None)
    no_colour, forced = bool(os.environ.get("NO_COLOR")), bool(os.environ.get("FORCE_COLOR"))
    # A program may have replaced its standard streams by objects without `isatty`.
    isatty = getattr(stream, "isatty", None)
    if not (isatty and isatty()):
        return RenderOptions(width=width or 80, colour=forced and not no_colour, encoding=encoding)
    if not width:
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            width = 0
    # Editors' shells set it; they would print the escapes of links even where colour is forced.
    able = os.environ.get("TERM") != "dumb"
    colour = (able or forced) and not no_colour
    return RenderOptions(width=width or 80, colour=colour, links=colour and able, encoding=encoding)
