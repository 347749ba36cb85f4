"""Comments of lines that a fixer removes: they stay, above the lines in their place."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst


def with_comments_of(
    lines: Sequence[cst.SimpleStatementLine], new: cst.SimpleStatementLine
) -> cst.SimpleStatementLine:
    """Return ``new`` with the lines above some lines, and with the comments at their ends.

    A single comment goes to the end of ``new``; several go above it, because each was about one line.
    """
    behind = [line for line in lines if line.trailing_whitespace.comment is not None]
    if len(behind) == 1:
        new = new.with_changes(trailing_whitespace=behind[0].trailing_whitespace)
    above: list[cst.EmptyLine] = []
    for line in lines:
        # blank lines between the old lines no longer separate anything
        above += [blank for blank in line.leading_lines if blank.comment is not None or line is lines[0]]
        if len(behind) > 1:
            above += _own_lines(line.trailing_whitespace)
    return new.with_changes(leading_lines=above)


def without_decorator(function: cst.FunctionDef, index: int) -> cst.FunctionDef:
    """Return the function without one decorator; its comments go above the next one, or above ``def``."""
    decorators = list(function.decorators)
    gone = decorators.pop(index)
    comments = [*gone.leading_lines, *_own_lines(gone.trailing_whitespace)]
    if index < len(decorators):
        following = decorators[index]
        decorators[index] = following.with_changes(leading_lines=[*comments, *following.leading_lines])
        return function.with_changes(decorators=decorators)
    return function.with_changes(
        decorators=decorators, lines_after_decorators=[*comments, *function.lines_after_decorators]
    )


def _own_lines(behind: cst.TrailingWhitespace) -> list[cst.EmptyLine]:
    """Return a comment at a line's end as a line of its own."""
    return [] if behind.comment is None else [cst.EmptyLine(comment=behind.comment)]
