"""A page as plain text: Markdown that fits a width and can be read, searched and pasted."""

from __future__ import annotations

import re
import textwrap

_BLOCK = re.compile(r"^```.*?^```$|[^\n]+(?:\n(?!```)[^\n]+)*", re.MULTILINE | re.DOTALL)
"""A fenced block, or the lines of a paragraph."""


def to_plain(markdown: str, width: int) -> str:
    """Return the Markdown with its paragraphs and messages filled to ``width`` cells.

    Programs stay as they are, so that they can be pasted.

    Example:
        >>> print(to_plain("one two three", 9))
        one two
        three
    """
    return _BLOCK.sub(lambda block: _filled(block[0], width), markdown.removesuffix("\n"))


def _filled(block: str, width: int) -> str:
    """Return a block, filled if it is a paragraph or a message."""
    if block.startswith("```text"):
        head, *lines, foot = block.split("\n")
        return "\n".join((head, _filled("\n".join(lines), width), foot))
    if block.startswith(("```", "#")):
        return block
    # A word that is too long, such as a path, is better whole than broken.
    text = " ".join(block.split("\n"))
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
