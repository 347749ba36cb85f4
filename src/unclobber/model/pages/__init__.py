"""Pages of the codes: a program that fails, torch's message, the reason, and the repaired program.

The pages are Markdown files in this folder. They are the documentation of the codes, and the tests run every
program on them.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from .. import CODES

__all__ = ["Page", "page", "pages"]


@dataclass(frozen=True, slots=True)
class Page:
    """The documentation of one code."""

    code: str
    name: str
    gist: str
    text: str  # the whole page, as Markdown

    def plain(self, width: int) -> str:
        return to_plain(self.text, width)


def page(code: str) -> Page:
    """Return the page of a code.

    Raises:
        KeyError: there is no such code.
    Example:
        >>> page("UC301").name
        'graph-freed'
    """
    entry = CODES[code]
    file = Path(__file__).with_name(f"{code}.md")
    return Page(code, entry.name, entry.gist, file.read_text(encoding="utf-8"))


def pages() -> list[Page]:
    return [page(code) for code in CODES]


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
