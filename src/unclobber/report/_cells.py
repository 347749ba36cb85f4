"""Text measured in terminal cells: wide characters, tabs, control characters, wrapping.

A character may take no cell (a combining accent), one, or two (CJK, emoji). Underlines are right
only when counted in cells; ``len`` is wrong as soon as a comment is in Chinese.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ._words import SOLID_SPACE

NARROWEST = 40  # smallest width in columns, because an excerpt is unreadable in less
_TAB = 4  # cells between tab stops, as rustc shows them

_UNSEEN = "\N{REPLACEMENT CHARACTER}"
_TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # the writing direction

_STAND_INS = {"…": "...", "ᵀ": "^T", "′": "'"}
"""ASCII replacements of the report's own characters, for encodings that lack them."""

# A context variable, because threads may render for different streams.
_encoding: ContextVar[str | None] = ContextVar("encoding of the stream that is written for", default=None)


@contextmanager
def shown_in(encoding: str | None) -> Iterator[None]:
    # Missing characters are escaped before cells are counted.
    token = _encoding.set(encoding)
    try:
        yield
    finally:
        _encoding.reset(token)


def _lacks(char: str) -> bool:
    """Return whether the stream's encoding lacks the character."""
    encoding = _encoding.get()
    # a solid space becomes a space once lines are broken
    if encoding is None or char <= "~" or char == SOLID_SPACE:
        return False
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return True
    except LookupError:  # the program has made up the encoding's name
        return False
    return False


def _safe(char: str) -> str:
    """Return a replacement for a character that acts on the terminal or can't be shown."""
    acts = unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in _TURNING
    safe = _UNSEEN if acts else char
    if not _lacks(safe):
        return safe
    return _STAND_INS.get(safe) or safe.encode("ascii", "backslashreplace").decode()


def char_width(char: str) -> int:
    # Without rich, which a report of plain text never loads (test_importing_reports_is_cheap).
    if " " <= char <= "~":
        return 1
    from rich.cells import get_character_cell_size

    return get_character_cell_size(char)


def width(text: str) -> int:
    """Return the cells that a text without control characters takes.

    Example:
        >>> width("abc"), width("数据")
        (3, 4)
    """
    return sum(map(char_width, text))


def clean(text: str) -> str:  # tabs and newlines become spaces
    return "".join(_safe(" " if char in "\t\n\r" else char) for char in text)


def clean_line(text: str) -> str:
    return clean(text).replace(SOLID_SPACE, " ")  # for formats that break no lines


def clean_source(text: str) -> str:
    return "\t".join(clean(part) for part in text.split("\t"))  # a page lays tabs out


@dataclass(frozen=True, slots=True)
class Measured:
    """A source line as displayed: tabs expanded, controls replaced, cells counted."""

    glyphs: tuple[tuple[str, int, int], ...]  # character, first cell, number of cells
    offsets: tuple[int, ...]  # first cell of each character of the source line, then the total

    @property
    def total(self) -> int:
        return self.offsets[-1]

    def cell(self, column: int) -> int:
        return self.offsets[min(max(column - 1, 0), len(self.offsets) - 1)]

    def window(self, start: int, room: int) -> str:
        """Return the ``room`` cells from ``start``, with ``…`` at each end where the line goes on."""
        end = start + room
        low = start + 1 if start > 0 else 0
        high = end - 1 if end < self.total else self.total
        inside = [(c, at, n) for c, at, n in self.glyphs if at >= low and at + n <= high]
        # One cell like `…` itself: `...` would shift the underlines.
        more = "~" if _lacks("…") else "…"
        text = more if start > 0 else ""
        if inside:
            # A wide character cut in half by the edge leaves a blank, so that columns stay true.
            text += " " * (inside[0][1] - low) + "".join(c for c, _, _ in inside)
            reached = inside[-1][1] + inside[-1][2]
        else:
            reached = low
        if end < self.total:
            text += " " * (high - reached) + more
        return text


def measure(line: str) -> Measured:
    """Lay a source line out in cells.

    Example:
        >>> measure("\\td = '数据'").offsets[:3]
        (0, 4, 5)
    """
    glyphs: list[tuple[str, int, int]] = []
    offsets: list[int] = []
    at = 0
    for char in line:
        offsets.append(at)
        if char == "\t":
            count = _TAB - at % _TAB
            glyphs += [(" ", at + i, 1) for i in range(count)]
        else:
            safe = _safe(char)
            count = width(safe)
            glyphs += [(safe, at, count)] if len(safe) == 1 else [(c, at + i, 1) for i, c in enumerate(safe)]
        at += count
    offsets.append(at)
    return Measured(tuple(glyphs), tuple(offsets))


def _hard_break(token: str, room: int) -> Iterator[str]:
    """Cut a token that is wider than a line into pieces that are not."""
    piece, used = "", 0
    for char in token:
        cells = char_width(char)
        if piece and used + cells > room:
            yield piece
            piece, used = "", 0
        piece, used = piece + char, used + cells
    yield piece


def wrap(text: str, first: int, later: int | None = None) -> list[str]:
    """Break a text into lines of at most ``first`` cells, the later ones of at most ``later``.

    Text in backticks or joined by no-break spaces stays together as long as a line can hold it; a word wider
    than a line is cut. Never returns an empty list.

    Example:
        >>> wrap("grad of `w2` is dᵀ @ grad", 16)
        ['grad of `w2` is', 'dᵀ @ grad']
    """
    later = first if later is None else later
    lines: list[str] = []
    line, used = "", 0
    # Punctuation that touches backticks stays with them. The last alternative: a backtick without its pair,
    # as in a message of the program's own.
    queue = re.findall(r"(?:`[^`]*`|[^ `]|`)+", clean(text))[::-1]
    while queue:
        token = queue.pop()
        room = first if not lines else later
        cells = width(token)
        if used + bool(line) + cells <= room:
            line, used = f"{line} {token}" if line else token, used + bool(line) + cells
        elif cells > max(first, later) and len(parts := re.split("[ \xa0]+", token.strip(" \xa0"))) > 1:
            queue += parts[::-1]  # no line can hold it, so break it at its solid spaces after all
        elif line:
            lines.append(line)
            line, used = "", 0
            queue.append(token)
        else:
            pieces = list(_hard_break(token, room))
            queue += pieces[:0:-1]
            line, used = pieces[0], width(pieces[0])
            if len(pieces) > 1:
                lines.append(line)
                line, used = "", 0
    if line or not lines:
        lines.append(line)
    return [line.replace(SOLID_SPACE, " ") for line in lines]


def indented(text: str, columns: int, later: int, first: int = 0) -> str:
    """Return a text in lines of at most ``columns`` cells, or of `NARROWEST` if that is wider.

    Args:
        first: Spaces before the first line.
        later: Spaces before each later line.

    Example:
        >>> print(indented("guard: nothing had to be restored, nothing was kept", 40, later=2))
        guard: nothing had to be restored,
          nothing was kept
    """
    columns = max(columns, NARROWEST)
    return " " * first + f"\n{' ' * later}".join(wrap(text, columns - first, columns - later))


def clip(text: str, room: int) -> str:
    """Return the text, or as much of it as fits with an ``…`` at its end.

    Example:
        >>> clip("a long line", 7)
        'a long…'
    """
    return measure(text).window(0, room)


def clip_left(text: str, room: int) -> str:
    """Return the text, or its end after an ``…``: for paths, whose end matters most.

    Example:
        >>> clip_left("/home/me/train.py:14", 12)
        '…train.py:14'
    """
    line = measure(text)
    return line.window(max(line.total - room, 0), room)
