"""A page as plain text: Markdown that fits a width and can be read, searched and pasted."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

_FENCE = "```"


def to_plain(markdown: str, width: int) -> str:
    """Return the Markdown with its paragraphs and messages filled to ``width`` cells.

    Programs stay as they are, so that they can be pasted.

    Example:
        >>> print(to_plain("one two three", 9))
        one two
        three
    """
    return "\n".join(line for block in _blocks(markdown) for line in _filled(block, width))


def _blocks(markdown: str) -> Iterator[list[str]]:
    """Yield fenced blocks whole, empty lines, and the lines of each paragraph together."""
    block: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        if line.startswith(_FENCE):
            if not fenced and block:
                yield block
                block = []
            block.append(line)
            if fenced:
                yield block
                block = []
            fenced = not fenced
        elif line or fenced:
            block.append(line)
        else:
            if block:
                yield block
                block = []
            yield [""]
    if block:
        yield block


def _filled(block: list[str], width: int) -> list[str]:
    """Return a block's lines, filled if it is a paragraph or a message."""
    if block == [""]:
        return block
    if block[0].startswith(f"{_FENCE}text"):
        return [block[0], *_fill(block[1:-1], width), block[-1]]
    if block[0].startswith((_FENCE, "#")):
        return block
    return _fill(block, width)


def _fill(lines: list[str], width: int) -> list[str]:
    # A word that is too long, such as a path, is better whole than broken.
    return textwrap.wrap(" ".join(lines), width, break_long_words=False, break_on_hyphens=False)
