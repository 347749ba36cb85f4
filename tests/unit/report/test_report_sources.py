"""Which characters are underlined, and what is shown when the file is not what ran."""

from __future__ import annotations

import dataclasses

import pytest
from sample_findings import SOURCES, site

from unclobber.model import Site
from unclobber.report._sources import Sources


def underlined(place: Site, *args, **kwargs) -> str:
    """The underlined text of a one-line place."""
    sources = Sources()
    span = sources.locate(place, *args, **kwargs)
    assert span.line == span.end_line
    return (sources.line(span.path, span.line) or "")[span.column - 1 : span.end_column - 1]


def unread(source: str, statement: str | None = None) -> Site:
    """A place in a file that can't be read."""
    statement = source if statement is None else statement
    column = statement.index(source) + 1
    return Site("/gone.py", 3, column, 3, column + len(source), "f", source, 3, 3, statement)


@pytest.mark.parametrize(
    ("source", "focus", "expected"),
    [
        ("torch.matmul(d, w2)", "d", "d"),
        ("torch.matmul(d, w2)", None, "torch.matmul(d, w2)"),
        ("f(d, d)", "d", "f(d, d)"),
        ("f(d.x, d)", "d.x", "d.x"),
        ("f(数, d)", "d", "d"),
        ("u.exp()", "e", "u.exp()"),
        ("f(abcd)", "bc", "f(abcd)"),
        ("x[0] ** 2", "x[0]", "x[0]"),
        ("not python (", "python", "not python ("),
    ],
)
def test_the_saved_tensor_inside_its_expression(source, focus, expected):
    """It is underlined by itself where it occurs exactly once as a whole expression."""
    assert underlined(unread(source), focus) == expected


@pytest.mark.parametrize(
    ("source", "statement", "expected"),
    [
        ("c[1]", "c[1] = 0.5", "c[1] = 0.5"),
        ("c[1]", "a = c[1] = 0.5", "a = c[1] = 0.5"),
        ("c[1]", "c[1], b = f()", "c[1], b = f()"),
        ("c[1]", "c[1] += 2", "c[1] += 2"),
        ("c.data", "c.data = d", "c.data = d"),
        ("c.add_(1)", "b = c.add_(1)", "c.add_(1)"),
        ("c.add_(1)", "c.add_(1)", "c.add_(1)"),
        ("c[1]", "if c[1] = :", "c[1]"),
    ],
)
def test_a_written_target_takes_its_whole_statement(source, statement, expected):
    """``c[1]`` alone would not show what was written."""
    assert underlined(unread(source, statement), statement=True) == expected


def test_the_statement_is_the_one_that_the_expression_is_in(tmp_path):
    """Of two equal statements on a line the right one is taken."""
    path = tmp_path / "net.py"
    path.write_text("c[1] = 0; c[1] = 0\n")
    place = Site(str(path), 1, 11, 1, 15, "f", "c[1]", 1, 1, "c[1] = 0")
    span = Sources().locate(place, statement=True)
    assert (span.column, span.end_column) == (11, 19)


def test_a_place_of_several_lines_is_exact():
    """Both ends are kept, for an expression and for a statement."""
    place = site("tall.py", "y[\n    0\n]")
    span = Sources().locate(place)
    assert (span.line, span.column, span.end_line, span.end_column) == (14, 1, 16, 2)
    span = Sources().locate(place, statement=True)
    assert (span.line, span.column, span.end_line, span.end_column) == (14, 1, 16, 6)


def test_unknown_columns_underline_the_line():
    """Where only the line is known, all of it but the indentation."""
    place = site("train.py", "d[:]")
    place = dataclasses.replace(place, source="d[:] = 0", column=1, end_column=1)
    assert underlined(place) == "d[:] = 0"


def test_a_changed_file_is_not_shown():
    """The line of the file is another one now: the recorded text is shown in its place."""
    place = dataclasses.replace(
        site("train.py", "d[:]"), source="e[:]", statement="e[:] = 7", column=5, end_column=9
    )
    sources = Sources()
    span = sources.locate(place, statement=True)
    assert sources.line(str(SOURCES / "train.py"), 14) == "e[:] = 7"
    assert (span.line, span.column, span.end_column) == (14, 1, 9)


def test_the_same_expression_in_another_statement_is_a_changed_file():
    """A short expression may stand at the recorded column by chance."""
    place = dataclasses.replace(site("train.py", "d[:]"), statement="d[:] = 7")
    sources = Sources()
    sources.locate(place)
    assert sources.line(str(SOURCES / "train.py"), 14) == "d[:] = 7"


def test_nothing_recorded_and_nothing_to_read():
    """No text is invented."""
    sources = Sources()
    sources.locate(Site("/gone.py", 3, 1, 3, 1, "f", "", 3, 3, ""))
    assert not sources.line("/gone.py", 3)
