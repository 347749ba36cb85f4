"""Spans of source text."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """A range of source: 1-based lines, 0-based columns in UTF-8 bytes, as ``ast`` counts them."""

    line: int
    end_line: int
    column: int
    end_column: int  # -1 for the end of the line

    @classmethod
    def of(cls, node: ast.AST) -> Span:
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        end_line, end_column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        return cls(line, end_line or line, column, end_column or 0)

    def text(self, lines: Sequence[str]) -> str:
        """Return the text of the span, lines joined by newlines; empty if there are no such lines."""
        if not 1 <= self.line <= self.end_line <= len(lines):
            return ""
        picked = [line.rstrip("\r\n") for line in lines[self.line - 1 : self.end_line]]
        # The end first, because both columns may belong to one line.
        if self.end_column >= 0:
            picked[-1] = picked[-1][: characters(picked[-1], self.end_column)]
        picked[0] = picked[0][characters(picked[0], self.column) :]
        return "\n".join(picked)

    def extent(self, lines: Sequence[str]) -> tuple[int, int, int, int] | None:
        """Return the span as reports count it: line, column, end line and end column, columns 1-based and in
        characters; None if there are no such lines."""
        if not 1 <= self.line <= self.end_line <= len(lines):
            return None
        column = characters(lines[self.line - 1], self.column) + 1
        end_column = characters(lines[self.end_line - 1], self.end_column) + 1
        return self.line, column, self.end_line, end_column


def characters(line: str, column: int) -> int:
    """Convert a column in UTF-8 bytes to one in characters, both 0-based.

    Example:
        >>> characters("αβ = x", 5)
        3
    """
    # A text that is given as a string, unlike a file, may hold half a surrogate pair.
    return len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))
