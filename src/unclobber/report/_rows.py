"""A row of a report: pieces of text, each with a style name, and how to print it.

Reports are laid out as plain rows first, so that a text file, a pipe and a terminal get the same
characters; colour is put on last and changes no width.
"""

from __future__ import annotations

from collections.abc import Iterable

Row = list[tuple[str, str]]
"""Pieces from left to right: text and style name (``""`` for none)."""

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


def to_string(rows: Iterable[Row], *, colour: bool) -> str:
    """Join rows to one text without a newline at its end.

    Args:
        rows: What to print, top down.
        colour: Put ANSI colours on, whatever the output is; the caller knows the terminal.
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
        return "".join(
            styles[style].render(text, color_system=ColorSystem.STANDARD) if style else text
            for text, style in kept
        )

    return "\n".join(ansi(row) for row in rows)
