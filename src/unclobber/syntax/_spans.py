"""Spans of source text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class SpanEdit(NamedTuple):
    """A part of a file, and its replacement."""

    path: str
    line: int
    column: int
    """1-based, in characters."""
    end_line: int
    end_column: int
    """The column after the last character."""
    text: str


class Span(NamedTuple):
    """A range of source: 1-based lines, 0-based columns in UTF-8 bytes, as ``ast`` counts them."""

    line: int
    end_line: int
    column: int
    end_column: int
    """-1 for the end of the line."""


def node_span(node: ast.AST) -> Span:
    """Return the span of a node; line 0 if it has none."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
    return Span(line, end_line or line, column, end_column or 0)


def characters(line: str, column: int) -> int:
    """Convert a column in UTF-8 bytes to one in characters, both 0-based.

    Example:
        >>> characters("αβ = x", 5)
        3
    """
    return len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))


def segment(lines: Sequence[str], span: Span) -> str:
    """Return the text of a span, lines joined by newlines; empty if there are no such lines."""
    if not 1 <= span.line <= span.end_line <= len(lines):
        return ""
    picked = [line.rstrip("\r\n") for line in lines[span.line - 1 : span.end_line]]
    if span.end_column >= 0:
        picked[-1] = picked[-1][: characters(picked[-1], span.end_column)]
    picked[0] = picked[0][characters(picked[0], span.column) :]
    return "\n".join(picked)


def extent(lines: Sequence[str], span: Span) -> tuple[int, int, int, int] | None:
    """Return a span as reports count it: line, column, end line and end column, columns 1-based and in
    characters; None if there are no such lines."""
    if not 1 <= span.line <= span.end_line <= len(lines):
        return None
    column = characters(lines[span.line - 1], span.column) + 1
    return span.line, column, span.end_line, characters(lines[span.end_line - 1], span.end_column) + 1


def replaced(text: str, edits: Iterable[SpanEdit]) -> str | None:
    """Return a file's text with edits made in it; None if two of them overlap."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    last = len(text) + 1
    for edit in sorted(set(edits), reverse=True):
        begin = starts[edit.line - 1] + edit.column - 1
        end = min(starts[min(edit.end_line, len(starts)) - 1] + edit.end_column - 1, len(text))
        if end > last:
            return None
        text, last = f"{text[:begin]}{edit.text}{text[end:]}", begin
    return text
