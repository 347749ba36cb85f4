"""Excerpts: underlines are exact in cells, and nothing is wider than asked."""

from __future__ import annotations

import linecache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from unclobber.report._cells import measure, width
from unclobber.report._rows import plain
from unclobber.report._snippet import Mark, gutter_width, snippet
from unclobber.report._sources import SourceRange, Sources

PATH = "/nowhere/net.py"


def draw(text: str, *marks: Mark, columns: int = 80) -> list[str]:
    """The excerpt of a source text."""
    sources = Sources({(PATH, i): line for i, line in enumerate(text.split("\n"), 1)})
    rows = snippet(marks, sources, width=columns, gutter=gutter_width(marks))
    return [plain(row) for row in rows]


def mark(line: int, start: int, end: int, label: str = "", *, last: int = 0, primary: bool = False) -> Mark:
    return Mark(SourceRange(PATH, line, start, last or line, end), label, primary)


def test_marks_on_one_line_keep_their_order():
    """The line is shown once; each mark has its own row, in the order of events."""
    assert draw("y = x.exp().add_(1)", mark(1, 5, 12, "saved"), mark(1, 5, 20, "written", primary=True)) == [
        " --> /nowhere/net.py:1",
        "  |",
        "1 | y = x.exp().add_(1)",
        "  |     ------- saved",
        "  |     ^^^^^^^^^^^^^^^ written",
    ]


def test_a_bracket_spans_the_lines_of_a_tall_mark():
    """It starts below the first line where something stands before it; other marks stay inside it."""
    text = "f = g(\n    a,\n    b,\n)\nend()"
    marks = mark(1, 5, 2, "saved", last=4), mark(3, 5, 6, "read", primary=True), mark(5, 1, 6, "needed")
    assert draw(text, *marks)[2:] == [
        "1 |   f = g(",
        "  |  _____-",
        "2 | |     a,",
        "3 | |     b,",
        "  | |     ^ read",
        "4 | | )",
        "  | |_- saved",
        "5 |   end()",
        "  |   ----- needed",
    ]


def test_brackets_that_meet_have_a_lane_each():
    """Two tall marks over the same lines are told apart."""
    text = "y = g(\n a,\n)\nz"
    assert draw(text, mark(1, 5, 2, "one", last=3), mark(2, 2, 2, "two", last=4, primary=True))[2:] == [
        "1 |     y = g(",
        "  |  _______-",
        "2 | | /  a,",
        "3 | | | )",
        "  | |___- one",
        "4 |   | z",
        "  |   |_^ two",
    ]


def test_long_brackets_leave_out_their_middle():
    """Only the first and last two lines of a tall mark are shown, with a gap between."""
    text = "\n".join(["g(", *[f"    a{i}," for i in range(2, 12)], ")"])
    assert draw(text, mark(1, 1, 2, "saved", last=12))[2:] == [
        " 1 | / g(",
        " 2 | |     a2,",
        "...  |",
        "11 | |     a11,",
        "12 | | )",
        "   | |_- saved",
    ]


def test_gaps():
    """One line between two marks is shown, more are three dots."""
    rows = draw("a\nb\nc\nd\ne\nf", mark(1, 1, 2, "x"), mark(3, 1, 2, "y"), mark(6, 1, 2, "z"))
    assert [row[:3] for row in rows[2:]] == ["1 |", "  |", "2 |", "3 |", "  |", "...", "6 |", "  |"]


def test_tabs_and_wide_characters():
    """A tab goes to the next stop of four, a wide character takes two cells."""
    assert draw("\t数 = w.exp()", mark(1, 6, 13, "saved"))[2:] == [
        "1 |     数 = w.exp()",
        "  |          ------- saved",
    ]


def test_other_files_have_their_own_header():
    """The file of the offending line comes first."""
    sources = Sources({("/a.py", 1): "one", ("/b.py", 12): "two"})
    marks = [
        Mark(SourceRange("/a.py", 1, 1, 1, 4), "saved"),
        Mark(SourceRange("/b.py", 12, 1, 12, 4), "written", True),
    ]
    assert [plain(row) for row in snippet(marks, sources, width=80, gutter=2)] == [
        "  --> /b.py:12",
        "   |",
        "12 | two",
        "   | ^^^ written",
        "   |",
        "  ::: /a.py:1",
        "   |",
        " 1 | one",
        "   | --- saved",
    ]


def test_a_long_line_is_cut_around_its_mark():
    """An ellipsis stands on each side that is cut."""
    line = "start + " * 20 + "MARK" + " + end" * 20
    source, underline = draw(line, mark(1, 161, 165, "here"), columns=60)[2:]
    assert source.startswith("1 | …")
    assert source.endswith("…")
    assert source[underline.index("-") : underline.index("-") + 4] == "MARK"
    assert underline.strip(" |") == "---- here"


def test_marks_too_far_apart_for_one_window_repeat_the_line():
    """Both are seen, each in its own cut of the line."""
    line = "FIRST" + " + more" * 30 + " + LAST"
    rows = draw(line, mark(1, 1, 6, "a"), mark(1, len(line) - 3, len(line) + 1, "b"), columns=60)[2:]
    assert [row[:3] for row in rows] == ["1 |", "  |", "1 |", "  |", "  |"]
    assert rows[2].endswith(" LAST")
    assert rows[3].index("----") == rows[2].index("LAST")


def test_a_missing_file_is_said_to_be_missing():
    """Path and line stay, nothing is made up."""
    rows = snippet([mark(7, 3, 9, "written", primary=True)], Sources(), width=80, gutter=1)
    assert [plain(row) for row in rows] == [
        " --> /nowhere/net.py:7 (source not available)",
        "  |",
        "7 | …",
        "  | ^ written",
    ]


CHARS = st.sampled_from("ab(). \t数e\u0301🙂\x1b\u200b")


@st.composite
def excerpts(draw_from):
    """A source text with marks anywhere in it, even outside of its lines."""
    lines = draw_from(st.lists(st.text(CHARS, max_size=120), min_size=1, max_size=14))
    number = st.integers(1, len(lines) + 2)
    marks = []
    for _ in range(draw_from(st.integers(1, 5))):
        first, second = sorted((draw_from(number), draw_from(number)))
        start, end = draw_from(st.integers(1, 130)), draw_from(st.integers(1, 130))
        label = draw_from(st.text(CHARS, max_size=100))
        if first == second:
            start, end = min(start, end), max(start, end)
        marks.append(mark(first, start, end, label, last=second, primary=draw_from(st.booleans())))
    return "\n".join(lines), marks


@given(excerpts(), st.integers(40, 130))
@example(
    ("\n\n" + "x" * 34 + "\n", [Mark(SourceRange(PATH, 3, 35, 4, 1), "")]), 40
)  # begins at the line's very end
def test_never_wider_than_asked(excerpt, columns):
    """Any text, any marks, any width."""
    text, marks = excerpt
    assert max(cell_len(row) for row in draw(text, *marks, columns=columns)) <= columns


@given(st.text(CHARS, min_size=1, max_size=30), st.text(CHARS, max_size=30), st.integers(50, 130))
def test_the_underline_is_below_its_text(before, after, columns):
    """In whatever surroundings, the marked word stands exactly over its underline."""
    line = f"{before}MARK{after}"
    rows = draw(line, mark(1, len(before) + 1, len(before) + 5, "here", primary=True), columns=columns)
    source, underline = measure(rows[2]), rows[3]
    start = underline.index("^")
    assert underline[start:].startswith("^^^^ here") or underline.endswith("^^^^")
    under = [char for char, at, _ in source.glyphs if start <= at < start + 4]
    assert "".join(under).replace("\u0301", "").replace("\u200b", "") == "MARK"


@given(st.text(CHARS, max_size=80), st.integers(0, 60), st.integers(3, 60))
def test_windows_are_as_wide_as_their_room(text, start, room):
    """A window is never wider than its room, and says with an ellipsis what it leaves out."""
    line = measure(text)
    shown = line.window(start, room)
    assert width(shown) <= room
    assert (shown[:1] == "…") == (start > 0)
    assert (line.total > start + room) == (
        shown[-1:] == "…" and width(shown) == room and line.total > start + room
    )


@pytest.fixture
def written(tmp_path):
    """Write a source file; linecache forgets it afterwards."""
    path = tmp_path / "net.py"

    def write(text: str) -> str:
        path.write_text(text, encoding="utf-8")
        linecache.checkcache(str(path))
        return str(path)

    yield write
    linecache.cache.pop(str(path), None)


def test_sources_are_read_from_the_file(written):
    """Line numbers are 1-based; what is outside of the file is None."""
    path = written("one\ntwo\n")
    assert [Sources().line(path, n) for n in (0, 1, 2, 3)] == [None, "one", "two", None]
