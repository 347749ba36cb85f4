"""One page a code: a program that fails, what torch says, why, and the repaired program.

The pages are Markdown files beside this one. They are the documentation of the codes, and the tests
run every program on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from ...model import CODES
from ._plain import to_plain

__all__ = ["Page", "page", "pages", "to_plain"]


@dataclass(frozen=True, slots=True)
class Page:
    """What there is to say about one code."""

    code: str
    name: str
    gist: str
    text: str
    """The whole page, as Markdown."""


def page(code: str) -> Page:
    """The page of a code.

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
    """Every page, in the order of the codes."""
    return [page(code) for code in CODES]
