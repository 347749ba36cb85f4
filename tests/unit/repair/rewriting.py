"""Apply one fixer's rewriting to the statement on a marked line."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from textwrap import dedent
from typing import Any

from unclobber.repair._syntax import Source, parse

MARK = "  # <-"


def marked(text: str, mark: str = MARK) -> tuple[Source, ast.stmt]:
    """The parsed text and its statement on the line that ends in the mark; the mark is taken out."""
    text = dedent(text).lstrip("\n")
    line = next(number for number, code in enumerate(text.splitlines(), 1) if code.endswith(mark))
    source = parse(text.replace(mark, ""))
    assert source is not None
    code = source.text.splitlines()[line - 1]
    statement = source.statement(line, len(code) - len(code.lstrip()) + 1)
    assert statement is not None
    return source, statement


def rewritten(rewrites: Callable[[Source, Any], Iterable[Any]], text: str) -> list[str]:
    """All new texts that a fixer's ``rewrites`` yields for the marked statement, dedented as ``text``."""
    source, statement = marked(text)
    found = []
    for new in rewrites(source, statement):
        found.append(new if isinstance(new, str) else new[0])
    return found


def plain(text: str) -> str:
    """An expected text as written in a test."""
    return dedent(text).lstrip("\n")
