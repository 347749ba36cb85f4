"""``# unclobber: ignore[UC102]``: comments on the line of a write that suppress its finding."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from ..model import Finding, Site
from ..syntax import text_of
from ._paths import shown_path
from .codes import covers, prefix_of, unknown

_COMMENT = re.compile(r"#\s*unclobber:\s*([\w-]+)\s*(?:\[([^\]]*)\]|(\[.*|UC\d.*))?")
"""A word, then codes in brackets or a malformed list of codes."""


class IgnoreComment(NamedTuple):
    """A comment that suppresses findings."""

    path: str
    line: int  # 1-based
    text: str  # the comment as written, without the text after it
    codes: tuple[str, ...] | None  # codes, or beginnings of codes; None for all
    problem: str = ""  # the mistake in it; no full stop; empty if there is none

    def covers(self, code: str) -> bool:
        return self.codes is None or covers(self.codes, code)

    def stands_at(self, site: Site) -> bool:
        return self.path == site.path and site.statement_line <= self.line <= site.statement_end_line

    @staticmethod
    def all_in(path: str) -> tuple[IgnoreComment, ...]:
        """Return the comments of a file, or of code under a file's name, such as a notebook's cell."""
        text = text_of(path)
        # Most files have no such comment, and tokenizing one costs far more than this search.
        if text is None or not any("unclobber:" in line for line in text.lines):
            return ()
        return tuple(_read(path, text.lines))

    @staticmethod
    def unused(
        paths: Iterable[str], findings: Iterable[Finding], where: str = "in this run"
    ) -> Iterator[str]:
        """Yield one sentence, no full stop, for each comment that suppresses nothing and would hide later
        findings."""
        occurred = [(finding.code, site) for finding in findings for site in finding.blamed]
        for path in sorted(set(paths)):
            for comment in IgnoreComment.all_in(path):
                codes = {code for code, site in occurred if comment.stands_at(site)}
                if said := comment._wrong(codes, where):
                    yield f"`{comment.text}` at {shown_path(path)}:{comment.line} {said}"

    def _wrong(self, occurred: set[str], where: str) -> str:
        """Return the mistake in the comment, given its statement's codes; empty if there is none."""
        if self.problem:
            return f"is not understood: {self.problem}"
        if self.codes is None:
            return "" if occurred else f"suppresses nothing: there was no finding {where}"
        # By code: of several codes in one comment only the idle ones are named
        # (test_of_several_codes_the_idle_ones_are_told).
        idle = [code for code in self.codes if not any(other.startswith(code) for other in occurred)]
        if not idle:
            return ""
        return f"suppresses nothing: there was no {' or '.join(idle)} {where}"


def _read(path: str, lines: Sequence[str]) -> Iterator[IgnoreComment]:
    """Yield the ignore comments of the lines."""
    tokens = tokenize.generate_tokens(io.StringIO("".join(lines)).readline)
    try:
        for token in tokens:
            if token.type != tokenize.COMMENT or (match := _COMMENT.search(token.string)) is None:
                continue
            # Prose after `unclobber:` is the author's own.
            if match[1].startswith("ignore") or get_close_matches(match[1].lower(), ["ignore"]):
                yield _comment(path, token.start[0], match)
    except (tokenize.TokenError, SyntaxError):  # what follows is no Python, so none of it has run
        return


def _comment(path: str, line: int, match: re.Match[str]) -> IgnoreComment:
    """Parse one comment; codes that don't exist become its problem."""
    text, word, listed, malformed = match[0].rstrip(), match[1], match[2], match[3]
    if word != "ignore" or malformed is not None:
        problem = "codes stand in brackets, as in `# unclobber: ignore[UC102]`"
        if word != "ignore":
            problem = f"there is no `{word}`: did you mean `ignore`?"
        # Without codes it suppresses nothing: test_what_is_not_understood_is_told_and_suppresses_nothing.
        return IgnoreComment(path, line, text, (), problem)
    if listed is None:
        return IgnoreComment(path, line, text, None)
    words = [word for word in re.split(r"[\s,]+", listed) if word]
    codes = [code for word in words if (code := prefix_of(word)) is not None]
    wrong = next((word for word in words if prefix_of(word) is None), None)
    problem = "" if words else "it names no code"
    return IgnoreComment(path, line, text, tuple(codes), problem if wrong is None else unknown(wrong))
