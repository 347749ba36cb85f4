"""Pages of the codes: a program that fails, torch's message, the reason, and the repaired program.

The pages are Markdown files in this folder. They are the documentation of the codes, and the tests run every
program on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from .. import CODES
from ._plain import to_plain

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
    file = resources.files(__name__) / f"{code}.md"
    return Page(code, entry.name, entry.gist, file.read_text(encoding="utf-8"))


def pages() -> list[Page]:
    return [page(code) for code in CODES]
