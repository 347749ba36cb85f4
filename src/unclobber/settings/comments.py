"""``# unclobber: ignore[UC102]``: comments that stand on the line of a write and take its finding back."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..model import Site
from ..parsing import text_of
from .codes import covers, prefix_of, unknown

_COMMENT = re.compile(r"#\s*unclobber:\s*ignore\b\s*(?:\[([^\]]*)\]|(\[.*|UC\d.*))?")
"""Codes in brackets; or what was to be a list of codes and is none."""


class IgnoreComment(NamedTuple):
    """One of them."""

    path: str
    line: int
    """1-based."""
    text: str
    """As it is written, without what follows it."""
    codes: tuple[str, ...] | None
    """Codes, or beginnings of codes; None for all."""
    problem: str = ""
    """What is wrong with it; no full stop."""

    def covers(self, code: str) -> bool:
        """Whether findings of the code are meant."""
        return self.codes is None or covers(self.codes, code)

    def stands_at(self, site: Site) -> bool:
        """Whether it is on one of the lines of the statement there."""
        return self.path == site.path and site.statement_line <= self.line <= site.statement_end_line


def comments_in(path: str) -> tuple[IgnoreComment, ...]:
    """Those of a file, or of what goes by the name of one, such as a notebook's cell."""
    found = text_of(path)
    if found is None or not any("unclobber:" in line for line in found.lines):
        return ()
    return tuple(_read(path, found.lines))


def _read(path: str, lines: Sequence[str]) -> Iterator[IgnoreComment]:
    tokens = tokenize.generate_tokens(io.StringIO("".join(lines)).readline)
    try:
        for token in tokens:
            if token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                yield _comment(path, token.start[0], match)
    except (tokenize.TokenError, SyntaxError):  # the rest is no Python, so none of it has run
        return


def _comment(path: str, line: int, match: re.Match[str]) -> IgnoreComment:
    text, listed, malformed = match[0].rstrip(), match[1], match[2]
    if malformed is not None:
        problem = "codes stand in brackets, as in `# unclobber: ignore[UC102]`"
        return IgnoreComment(path, line, text, (), problem)
    if listed is None:
        return IgnoreComment(path, line, text, None)
    words = [word for word in re.split(r"[\s,]+", listed) if word]
    codes = [code for word in words if (code := prefix_of(word)) is not None]
    wrong = next((word for word in words if prefix_of(word) is None), None)
    problem = "" if words else "it names no code"
    return IgnoreComment(path, line, text, tuple(codes), problem if wrong is None else unknown(wrong))
