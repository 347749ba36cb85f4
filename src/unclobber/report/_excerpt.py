"""Source excerpts as data for a page: lines cut into pieces, each with the marks that cover it.

The text report draws its own excerpts; both show the same lines (:func:`._snippet.shown_lines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ._cells import clean, clean_source
from ._snippet import Mark, heading, shown_lines, visible
from ._sources import Sources
from .story import FindingPlace, Kind


@dataclass(frozen=True, slots=True)
class Underline:
    """The part of a mark that covers one line."""

    event: int  # number of the event in the timeline
    kind: Kind
    primary: bool
    lane: int  # depth among overlapping marks: 0 for the innermost, which is drawn closest to the text


@dataclass(frozen=True, slots=True)
class UnderlinedText:
    """A piece of a line, with the marks on it, outermost first."""

    text: str
    underlines: tuple[Underline, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """A label below a line."""

    event: int
    kind: Kind
    text: str
    indent: int  # characters before the mark


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    """A line of source; a ``number`` of None means that lines are left out."""

    number: int | None
    pieces: tuple[UnderlinedText, ...] = ()
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The shown lines of one file."""

    path: str
    where: str  # `train.py:14`, with a remark if the source can't be read
    lines: tuple[ExcerptLine, ...]


def excerpts(numbered: Sequence[tuple[int, FindingPlace]], sources: Sources) -> list[Excerpt]:
    """Return one excerpt for each file, that of the first offending place first."""
    if not numbered:
        return []
    first = next((place for _, place in numbered if place.primary), numbered[-1][1])
    paths = dict.fromkeys([first.span.path, *(place.span.path for _, place in numbered)])
    return [_excerpt(path, numbered, first, sources) for path in paths]


def _excerpt(
    path: str, numbered: Sequence[tuple[int, FindingPlace]], first: FindingPlace, sources: Sources
) -> Excerpt:
    """Build the excerpt of one file, with a gap where lines are left out."""
    inside = [(event, place) for event, place in numbered if place.span.path == path]
    at = first if first.span.path == path else inside[0][1]
    marks = [visible(Mark(place.span, place.label, place.primary), sources) for _, place in inside]
    lines: list[ExcerptLine] = []
    previous: int | None = None
    for number in shown_lines(marks, sources):
        if previous is not None and number > previous + 1:
            lines.append(ExcerptLine(None))
        here = [(e, p.kind, m) for (e, p), m in zip(inside, marks, strict=True) if m.covers(number)]
        lines.append(_line(number, sources.line(path, number), here))
        previous = number
    return Excerpt(path, clean(heading(at.span, sources)), tuple(lines))


def _line(number: int, text: str | None, here: list[tuple[int, Kind, Mark]]) -> ExcerptLine:
    """Cut one line where its marks begin and end, and collect the labels of marks that end there."""
    shown = "…" if text is None else text.rstrip()
    spans = [(*_columns(mark, number, shown, known=text is not None), e, k, mark) for e, k, mark in here]
    labels = tuple(
        Label(event, kind, clean(mark.label), start)
        for start, _, event, kind, mark in spans
        if mark.span.end_line == number and mark.label
    )
    # The widest is the outermost, so that spans nest as far as they can.
    spans.sort(key=lambda item: item[0] - item[1])
    cuts = sorted({0, len(shown), *(cut for start, end, *_ in spans for cut in (start, end))})
    pieces = []
    for low, high in pairwise(cuts):
        over = [item for item in spans if item[0] <= low and high <= item[1]]
        underlines = tuple(
            Underline(event, kind, mark.primary, _lane(item, spans))
            for item in over
            for _, _, event, kind, mark in [item]
        )
        pieces.append(UnderlinedText(clean_source(shown[low:high]), underlines))
    return ExcerptLine(number, tuple(pieces), labels)


def _lane(item: tuple[int, int, int, Kind, Mark], spans: list[tuple[int, int, int, Kind, Mark]]) -> int:
    # Each needs a line of its own below the text.
    start, end = item[:2]
    later = spans[spans.index(item) + 1 :]
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
