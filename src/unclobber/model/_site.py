"""Places in source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a call stack: enough to find the line again."""

    path: str
    """Absolute path, or the interpreter's name of the code, such as ``<string>``."""
    line: int
    """1-based."""
    function: str
    """``__qualname__`` of the code object; ``<module>`` at top level."""
    source: str = ""
    """The line's text, stripped; empty if the source can't be read."""
    library: bool = False
    """Whether the frame is torch's, a site-package's or the standard library's."""
    compiled: bool = False
    """Whether ``torch.compile`` made its code; then only the function's first line is known."""


Extent = tuple[int, int, int, int]
"""First line, first column, last line and the column after the last character; 1-based, in characters."""


@dataclass(frozen=True, slots=True)
class Site:
    """The innermost expression of the user's own code on a stack.

    If a whole stack is a library's, it is its innermost frame and ``library`` is true.
    """

    path: str
    line: int
    """1-based first line of the expression."""
    column: int
    """1-based, in characters (not UTF-8 bytes); 1 if only the line is known."""
    end_line: int
    """1-based last line of the expression."""
    end_column: int
    """1-based, one past the last character, so that ``source == line[column-1:end_column-1]``."""
    function: str
    """``__qualname__`` of the code object; ``<module>`` at top level."""
    source: str
    """The expression's text; the whole stripped line if columns are unknown."""
    statement_line: int
    """First line of the statement that holds the expression."""
    statement_end_line: int
    """Last line of that statement."""
    statement: str
    """The statement's text, dedented; the line if it can't be parsed."""
    library: bool = False
    """Whether no line of the user's own led there."""
    below: tuple[Frame, ...] = ()
    """Library frames that the site's line led to, outermost first: ``self.act(x)`` → ``F.relu``."""
    stack: tuple[Frame, ...] = ()
    """The whole stack as it was recorded, innermost first."""
    statement_column: int | None = None
    """1-based, in characters; None if the statement starts its line."""

    @property
    def parametrizes(self) -> bool:
        """Return whether the line computes a weight for ``torch.nn.utils.parametrize``."""
        return any(frame.library and frame.path.endswith("parametrize.py") for frame in self.stack)


@dataclass(frozen=True, slots=True)
class Need:
    """A call of ``backward()`` or ``autograd.grad``, or the line that reads a stale value."""

    site: Site | None
    """The user's call; None if it is not known."""
    nth: int = 1
    """Number of the backward call since watching began, 1-based."""
    node: str | None = None
    """torch's name of the backward node that unpacked the tensor: ``MmBackward0``."""
