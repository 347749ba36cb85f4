"""A row of a report: pieces of text, each with a style name, and how to print it.

Reports are laid out as plain rows first, so that a text file, a pipe and a terminal get the same
characters; colour is put on last and changes no width.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePath

Row = list[tuple[str, str]]
"""Pieces from left to right: text and style name (``""`` for none, ``link /home/me/train.py`` for a path)."""

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
"""Style names with what they are in rich's words; the sixteen colours of any terminal."""


def plain(row: Row) -> str:
    """The row's characters, without spaces at its end."""
    return "".join(text for text, _ in row).rstrip()


def link_to(path: str) -> str:
    """The style of a path: a link to the file, if it is one."""
    return f"{_LINK}{path}" if os.path.isabs(path) else ""


def to_string(rows: Iterable[Row], *, colour: bool, links: bool = False) -> str:
    """Join rows to one text without a newline at its end.

    Args:
        rows: What to print, top down.
        colour: Put ANSI colours on, whatever the output is; the caller knows the terminal.
        links: Put links on, too.
    """
    if not colour:
        return "\n".join(plain(row) for row in rows)
    from rich.color import ColorSystem
    from rich.style import Style

    styles = {name: Style.parse(words) for name, words in STYLES.items()}

    def ansi(row: Row) -> str:
        kept = list(row)
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
    """OSC 8, by hand: rich's links carry a random id, and equal runs are to print the same."""
    return f"\x1b]8;;{PurePath(path).as_uri()}\x1b\\{text}\x1b]8;;\x1b\\"
