"""Source excerpts with exact underlines: the picture in the middle of the story.

Each mark has a row of its own below its line, in the order of events, so several
marks on one line stay readable even where they overlap. A mark over several lines is a bracket at
the left, as in rustc::

    12 |       f = torch.matmul(
       |  _________-
    13 | |         d, w2)
       | |______________- saved here

No row is ever wider than the given width: long lines are cut around their marks, labels are wrapped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from . import _words as words
from ._cells import Measured, clean, clip_left, measure, width, wrap
from ._rows import Row, link_to
from ._sources import SourceRange, Sources

_CONTEXT = 10  # cells shown right of a mark in a shortened line, if there is room
_INLINE = 36  # cells right of the underline below which a label is moved to the next row
_BELOW = 48  # cells that a label below its underline may take; it moves left to get them
_TALL = 5  # lines of a marked range above which only the first and the last ones are shown


@dataclass(frozen=True, slots=True)
class Mark:
    """A range of source with its label."""

    span: SourceRange
    label: str
    primary: bool = False  # whether it is the offending place (`^^^^`) or one that explains it (`----`)

    @property
    def tall(self) -> bool:
        return self.span.end_line > self.span.line

    def covers(self, line: int) -> bool:
        return self.span.line <= line <= self.span.end_line


AnyMark = TypeVar("AnyMark", bound=Mark)


def gutter_width(marks: Sequence[Mark]) -> int:
    return max([len(str(mark.span.end_line)) for mark in marks], default=1)


def snippet(
    marks: Sequence[Mark], sources: Sources, *, width: int, gutter: int, primary_style: str = "error"
) -> list[Row]:
    """Lay out the marked lines, one block for each file.

    Args:
        marks: In the order of events. The file of the first primary mark, else of the last mark, is shown
            first.
        gutter: Cells for line numbers (see :func:`gutter_width`).
        primary_style: Style of the carets.
    """
    rows: list[Row] = []
    for at, inside in by_file(marks):
        if rows:
            rows.append([(" " * gutter + " |", "gutter")])
        rows.append(_header(at, sources, width, gutter, arrow="-->" if not rows else ":::"))
        rows.append([(" " * gutter + " |", "gutter")])
        rows += _Block(inside, sources, width, gutter, primary_style).rows()
    return rows


def by_file(marks: Sequence[AnyMark]) -> Iterator[tuple[AnyMark, list[AnyMark]]]:
    """Yield the marks of each file, with the one whose line is its heading."""
    if not marks:
        return
    # The file of the offending line comes first
    # (test_other_files_have_their_own_header in tests/unit/report/test_report_snippet.py).
    first = next((mark for mark in marks if mark.primary), marks[-1])
    for path in dict.fromkeys([first.span.path, *(mark.span.path for mark in marks)]):
        inside = [mark for mark in marks if mark.span.path == path]
        yield first if path == first.span.path else inside[0], inside


def _header(mark: Mark, sources: Sources, width: int, gutter: int, *, arrow: str) -> Row:
    where = clip_left(heading(mark.span, sources), width - gutter - 4)
    return [(f"{'':{gutter}}{arrow} ", "gutter"), (where, link_to(mark.span.path))]


def heading(span: SourceRange, sources: Sources) -> str:
    missing = " (source not available)" if sources.line(span.path, span.line) is None else ""
    return f"{words.path(span.path)}:{span.line}{missing}"


def shown_lines(marks: Sequence[Mark], sources: Sources) -> Iterator[int | None]:
    """Yield the lines of one file to show: marked ones, and one line between two of them; None for a gap."""
    numbers: set[int] = set()
    for mark in marks:
        first, last = mark.span.line, mark.span.end_line
        # Of a long expression the ends say enough: a story has to fit a screen (test_one_screen).
        inside = range(first, last + 1)
        numbers.update(inside if len(inside) <= _TALL else [first, first + 1, last - 1, last])
    path = marks[0].span.path
    # A gap mark would take as much room as the one line that it leaves out
    # (test_gaps in tests/unit/report/test_report_snippet.py).
    between = {n + 1 for n in numbers if n + 1 not in numbers and n + 2 in numbers}
    previous = None
    for number in sorted(numbers | {n for n in between if sources.line(path, n) is not None}):
        if previous is not None and number > previous + 1:
            yield None
        yield number
        previous = number


def visible(mark: AnyMark, sources: Sources) -> AnyMark:
    """Return the mark; a tall one whose last line isn't known shrinks to its first."""
    span = mark.span
    # A file that is gone may have left the first line only, and a bracket would lead nowhere.
    if mark.tall and sources.line(span.path, span.end_line) is None:
        end = len(sources.line(span.path, span.line) or "") + 1
        return replace(mark, span=replace(span, end_line=span.line, end_column=end))
    return mark


class _Block:
    """The excerpt of one file."""

    def __init__(
        self, marks: Sequence[Mark], sources: Sources, width: int, gutter: int, primary_style: str
    ) -> None:
        """Lay out the lanes of brackets, which leave ``room`` cells for the source."""
        self.path = marks[0].span.path
        self.sources = sources
        self.gutter = gutter
        self.primary_style = primary_style
        self.marks = [visible(mark, sources) for mark in marks]
        self.lanes = _lanes(self.marks)
        self.lane_cells = 2 * (max(self.lanes.values()) + 1) if self.lanes else 0
        self.open: set[int] = set()  # marks (by index) whose bracket is open at the row being written
        self.room = width - gutter - 3 - self.lane_cells

    def rows(self) -> list[Row]:
        """Return all rows of the file, with a gap where lines are left out."""
        rows: list[Row] = []
        for number in shown_lines(self.marks, self.sources):
            rows += [self._row("...", "")] if number is None else self._line(number)
        return rows

    def _line(self, number: int) -> list[Row]:
        """Return the rows of one source line, in windows if it is long, with underlines and labels."""
        text = self.sources.line(self.path, number)
        line = measure("…" if text is None else text.rstrip())
        here = [
            (i, *(self._cells(mark, line, number) if text is not None else (0, 1)))
            for i, mark in enumerate(self.marks)
            if number in (mark.span.line, mark.span.end_line)
        ]
        margin = next((cell for char, cell, _ in line.glyphs if not char.isspace()), line.total)
        rows: list[Row] = []
        for group in self._groups(here, line):
            start = self._window(line, group)
            # A bracket starts with a `/` next to the line, instead of a row below it, if nothing precedes it.
            slash = {i for i, a, _ in group if self._opens(i, number) and len(here) == 1 and a == margin}
            rows.append(self._row(str(number), line.window(start, self.room), corners=slash))
            # After the row: next to its first line a bracket has a corner, and only below it a bar.
            self.open |= slash
            # Those that open come first, because their bars run through the rows of the other marks.
            for i, a, b in sorted(group, key=lambda item: not self._opens(item[0], number)):
                if i in slash:
                    continue
                # A mark wider than the window is underlined as far as the line is shown.
                a, b = min(max(a - start, 0), self.room - 1), min(b - start, self.room)
                rows += self._underline(i, number, a, max(b, a + 1))
        return rows

    def _opens(self, index: int, number: int) -> bool:
        mark = self.marks[index]
        return mark.tall and mark.span.line == number

    def _cells(self, mark: Mark, line: Measured, number: int) -> tuple[int, int]:
        """Return the first cell and the end cell of the mark's underline below this line."""
        first, last = line.cell(mark.span.column), line.cell(mark.span.end_column)
        if mark.tall and number == mark.span.line:
            return first, first + 1
        start = max(last, 1) - 1 if mark.tall else first
        return start, max(last, start + 1)

    def _groups(self, here: list[tuple[int, int, int]], line: Measured) -> list[list[tuple[int, int, int]]]:
        """Group the marks that fit into one window of a long line; most often all do."""
        if line.total <= self.room or not here:
            return [here]
        groups: list[list[tuple[int, int, int]]] = []
        # Marks too far apart for one window repeat the line, each in its own cut
        # (test_marks_too_far_apart_for_one_window_repeat_the_line).
        for item in here:
            group = [*groups[-1], item] if groups else [item]
            if groups and max(b for _, _, b in group) - min(a for _, a, _ in group) <= self.room - 2:
                groups[-1] = group
            else:
                groups.append([item])
        return groups

    def _window(self, line: Measured, group: list[tuple[int, int, int]]) -> int:
        """Return the first cell to show, so that the group's marks are inside."""
        end = max((b for _, _, b in group), default=0)
        if end <= self.room - 1:
            return 0
        start = min(a for _, a, _ in group)
        return max(min(end + _CONTEXT - self.room, line.total - self.room, start - 1), 0)

    def _underline(self, index: int, number: int, start: int, end: int) -> list[Row]:
        """Return the underline of a mark and its label: on the right, or below if the room is too small."""
        mark = self.marks[index]
        char, style = ("^", self.primary_style) if mark.primary else ("-", "other")
        row = self._row("", char * (end - start), at=start, style=style, reach=index if mark.tall else None)
        if self._opens(index, number):
            self.open.add(index)
            return [row]
        self.open.discard(index)
        if not mark.label:
            return [row]
        room_right = self.room - end - 1
        if room_right >= min(width(clean(mark.label)), _INLINE):
            first, *others = wrap(mark.label, room_right)
            return [
                [*row, (" " + first, style)],
                *(self._row("", t, at=end + 1, style=style) for t in others),
            ]
        # Below the underline, as far right as the label still has room to be read.
        start = max(0, min(start, self.room - min(width(clean(mark.label)), _BELOW)))
        below = wrap(mark.label, self.room - start)
        return [row, *(self._row("", text, at=start, style=style) for text in below)]

    def _row(
        self,
        number: str,
        text: str,
        *,
        at: int = 0,
        style: str = "",
        corners: Collection[int] = (),
        reach: int | None = None,
    ) -> Row:
        """Return one row: gutter, brackets, then ``text`` from cell ``at``.

        Args:
            number: Line number, ``...`` for a gap, or nothing.
            corners: Marks whose bracket starts next to this line.
            reach: Mark whose bracket runs through this row to ``text``.
        """
        gutter = "...".ljust(self.gutter + 2) if number == "..." else f"{number:>{self.gutter}} |"
        row: Row = [(gutter, "gutter"), (" ", "")]
        lanes = [(" ", "")] * self.lane_cells
        for index, lane in self.lanes.items():
            style_of = self.primary_style if self.marks[index].primary else "other"
            if index in corners:
                lanes[2 * lane] = ("/", style_of)
            elif index in self.open:
                lanes[2 * lane] = ("|", style_of)
        if reach is not None:
            opened = reach in self.open
            for cell in range(2 * self.lanes[reach] + opened, self.lane_cells):
                lanes[cell] = ("_" if cell > 2 * self.lanes[reach] else " ", style)
        lead = (" " * at, "") if reach is None else ("_" * at, style)
        return [*row, *lanes, lead, (text, style)]


def _lanes(marks: Sequence[Mark]) -> dict[int, int]:
    """Assign a column at the left to each tall mark; marks without a common line share one."""
    lanes: dict[int, int] = {}
    # From the top, so that a bracket which starts first has the leftmost free lane.
    for i, mark in sorted(enumerate(marks), key=lambda item: item[1].span.line):
        if mark.tall:
            taken = {
                lane
                for j, lane in lanes.items()
                if marks[j].span.line <= mark.span.end_line and mark.span.line <= marks[j].span.end_line
            }
            lanes[i] = next(lane for lane in range(len(marks)) if lane not in taken)
    return lanes
