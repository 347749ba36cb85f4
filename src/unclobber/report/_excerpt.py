"""Source excerpts as data for a page: lines cut into pieces, each with the marks that cover it.

The text report draws its own excerpts; both show the same lines (:func:`._snippet.shown_lines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ._cells import clean, clean_source
from ._snippet import Mark, by_file, heading, shown_lines, visible
from ._sources import Sources
from .story import FindingPlace


@dataclass(frozen=True, slots=True)
class Underline:
    """The part of a mark that covers one line."""

    place: FindingPlace
    lane: int  # depth among overlapping marks: 0 for the innermost, which is drawn closest to the text


@dataclass(frozen=True, slots=True)
class UnderlinedText:
    """A piece of a line, with the marks on it, outermost first."""

    text: str
    underlines: tuple[Underline, ...] = ()


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    """A line of source; a ``number`` of None means that lines are left out."""

    number: int | None
    pieces: tuple[UnderlinedText, ...] = ()
    labels: tuple[tuple[FindingPlace, int], ...] = ()
    """The places whose labels are below this line, each with the number of characters before its mark."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The shown lines of one file."""

    path: str
    where: str  # `train.py:14`, with a remark if the source can't be read
    lines: tuple[ExcerptLine, ...]


def excerpts(shown: Sequence[FindingPlace], sources: Sources) -> list[Excerpt]:
    """Return one excerpt for each file, that of the first offending place first."""
    by_path: list[Excerpt] = []
    for at, inside in by_file(shown):
        path = at.span.path
        marks = [visible(place, sources) for place in inside]
        lines: list[ExcerptLine] = []
        for number in shown_lines(marks, sources):
            if number is None:
                lines.append(ExcerptLine(None))
            else:
                here = [mark for mark in marks if mark.covers(number)]
                lines.append(_line(number, sources.line(path, number), here))
        by_path.append(Excerpt(path, clean(heading(at.span, sources)), tuple(lines)))
    return by_path


_Part = tuple[int, int, FindingPlace]  # the part of a line that a place covers: 0-based start, end


def _line(number: int, text: str | None, here: list[FindingPlace]) -> ExcerptLine:
    """Cut one line where its marks begin and end, and collect the labels of marks that end there."""
    shown = "…" if text is None else text.rstrip()
    parts = [(*_columns(place, number, shown, known=text is not None), place) for place in here]
    labels = tuple(
        (place, start) for start, _, place in parts if place.span.end_line == number and place.label
    )
    # The widest is the outermost, so that spans nest as far as they can.
    parts.sort(key=lambda part: part[0] - part[1])
    cuts = sorted({0, len(shown), *(cut for start, end, _ in parts for cut in (start, end))})
    pieces = []
    for low, high in pairwise(cuts):
        over = [part for part in parts if part[0] <= low and high <= part[1]]
        underlines = tuple(Underline(part[2], _lane(part, parts)) for part in over)
        pieces.append(UnderlinedText(clean_source(shown[low:high]), underlines))
    return ExcerptLine(number, tuple(pieces), labels)


def _lane(part: _Part, parts: list[_Part]) -> int:
    # Each needs a line of its own below the text.
    start, end, _ = part
    later = parts[parts.index(part) + 1 :]
    return sum(other[0] < end and start < other[1] for other in later)


def _columns(mark: Mark, number: int, line: str, *, known: bool) -> tuple[int, int]:
    """Return the part of a line that a mark covers, 0-based, at least one character."""
    if not known:
        return 0, 1
    span = mark.span
    start = span.column - 1 if number == span.line else len(line) - len(line.lstrip())
    end = span.end_column - 1 if number == span.end_line else len(line)
    # A line may be shorter than it was when it ran; its last character is marked then.
    start = min(start, max(len(line) - 1, 0))
    return start, min(max(end, start + 1), max(len(line), 1))
