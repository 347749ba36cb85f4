"""What a stream can show."""

from __future__ import annotations

import os
from typing import TextIO

from ..report import RenderOptions


def options_for(stream: TextIO | None) -> RenderOptions:
    """The width and colour of a terminal; 80 columns without colour for anything else.

    ``COLUMNS`` sets the width of any stream. A ``NO_COLOR`` that isn't empty (https://no-color.org) and
    ``TERM=dumb`` turn colour off.
    """
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) > 0 else 0
    if stream is None or getattr(stream, "closed", False) or not _is_terminal(stream):
        return RenderOptions(width=width or 80)
    if not width:
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            width = 0
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return RenderOptions(width=width or 80, colour=colour)


def _is_terminal(stream: TextIO) -> bool:
    # A program may have put an object of its own in place of its standard streams.
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty())
