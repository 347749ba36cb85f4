"""The programs on the pages, and what each must do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unclobber.model.pages import pages

_BLOCK = re.compile(r"^(?:## (?P<heading>[^\n]*)|```(?P<kind>\w+)\n(?P<text>.*?)^```)$", re.M | re.S)

FAILING, REPAIRED = "A program that fails", "The repaired program"


@dataclass(frozen=True, slots=True)
class PageProgram:
    """One block of Python on a page."""

    code: str
    heading: str
    position: int
    """Among the programs of its page, from 1."""
    source: str
    error: str | None
    """The message in the block of text that follows it, on one line; None: it runs to its end."""

    def __str__(self) -> str:
        return f"{self.code}-{self.position}"


def one_line(text: str) -> str:
    """Text without its line breaks: pages fold messages."""
    return " ".join(text.split())


def programs_of(code: str, markdown: str) -> list[PageProgram]:
    """The programs of one page, in order.

    A block of text belongs to the program before it, with words of the page between them or not.
    """
    heading, found = "", []
    for match in _BLOCK.finditer(markdown):
        if match["heading"] is not None:
            heading = match["heading"]
        elif match["kind"] == "python":
            found.append(PageProgram(code, heading, len(found) + 1, match["text"], None))
        elif match["kind"] == "text":
            last = found[-1]
            found[-1] = PageProgram(code, last.heading, last.position, last.source, one_line(match["text"]))
    return found


def all_programs() -> list[PageProgram]:
    """Every program of every page."""
    return [program for page in pages() for program in programs_of(page.code, page.text)]
