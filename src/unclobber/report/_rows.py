"""A row of a report: pieces of text, each with a style name, and its conversion to a string.

A report is first a list of plain rows, so that a text file, a pipe and a terminal get the same characters.
Colour is added last and changes no width.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

Row = list[tuple[str, str]]  # pieces from left to right: text and style (`""`, or `link /home/me/train.py`)

_LINK = "link "

STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "title": "bold",
    "gutter": "bold blue",
    "other": "bold cyan",
    "strong": "bold",
    "good": "green",
    "added": "green",
    "removed": "red",
    "dim": "dim",
}
"""Styles in rich's words, by name; they use the sixteen colours of any terminal."""


def plain(row: Row) -> str:
    return "".join(text for text, _ in row).rstrip()


def link_to(path: str) -> str:
    return f"{_LINK}{path}" if os.path.isabs(path) else ""


def to_string(rows: Iterable[Row], *, colour: bool, links: bool = False) -> str:
    """Join rows to one text without a newline at its end.

    Args:
        colour: Add ANSI colours, whatever the output is, because the caller knows the terminal.
        links: Add links, too.
    """
    if not colour:
        return "\n".join(plain(row) for row in rows)
    from rich.color import ColorSystem
    from rich.style import Style

    styles = {name: Style.parse(words) for name, words in STYLES.items()}

    def ansi(row: Row) -> str:
        """Return one row with its escapes."""
        kept = list(row)
        # As `plain` does, so that colour changes no character (test_colour_changes_no_character).
        while kept and not kept[-1][0].rstrip():
            kept.pop()
        if kept:
            kept[-1] = (kept[-1][0].rstrip(), kept[-1][1])
        return "".join(piece(text, style) for text, style in kept)

    def piece(text: str, style: str) -> str:
        if style.startswith(_LINK):
            return _linked(text, style.removeprefix(_LINK)) if links else text
        return styles[style].render(text, color_system=ColorSystem.STANDARD) if style else text

    return "\n".join(ansi(row) for row in rows)


def _linked(text: str, path: str) -> str:
    # Rich's links carry a random id, and equal runs must print the same.
    from pathlib import PurePath  # here, because only a terminal that shows links needs it

    return f"\x1b]8;;{PurePath(path).as_uri()}\x1b\\{text}\x1b]8;;\x1b\\"
