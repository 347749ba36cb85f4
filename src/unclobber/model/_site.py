"""Where in the source something happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One level of a call stack: enough to find the line again."""

    path: str
    """Absolute path, or what the interpreter calls the code, such as ``<string>``."""
    line: int
    """1-based."""
    function: str
    """``__qualname__`` of the code object; ``<module>`` at top level."""
    source: str = ""
    """The line's text, stripped; empty where the source can't be read."""
    library: bool = False
    """Whether the frame is torch's, a site-package's or the standard library's."""
    compiled: bool = False
    """Whether ``torch.compile`` made its code: of the user's function, whose first line is all it knows."""


Extent = tuple[int, int, int, int]
"""First line, first column, last line and the column after the last character; 1-based, in characters."""


@dataclass(frozen=True, slots=True)
class Site:
    """The innermost expression of the user's own code on a stack.

    Where a whole stack is a library's, it is the innermost frame of it and ``library`` is true.
    """

    path: str
    line: int
    """1-based first line of the expression."""
    column: int
    """1-based, in characters (not UTF-8 bytes); 1 where only the line is known."""
    end_line: int
    """1-based last line of the expression."""
    end_column: int
    """1-based, one past the last character, so that ``source == line[column-1:end_column-1]``."""
    function: str
    """``__qualname__`` of the code object; ``<module>`` at top level."""
    source: str
    """The expression's text; the whole stripped line where columns are unknown."""
    statement_line: int
    """First line of the statement that holds the expression."""
    statement_end_line: int
    """Its last line."""
    statement: str
    """The statement's text, dedented; the line where it can't be parsed."""
    library: bool = False
    """Whether no line of the user's own led there."""
    below: tuple[Frame, ...] = ()
    """Library frames that the site's line led to, outermost first: ``self.act(x)`` → ``F.relu``."""
    stack: tuple[Frame, ...] = ()
    """The whole stack as it was recorded, innermost first."""
    statement_column: int | None = None
    """1-based, in characters; None where it starts its line."""
