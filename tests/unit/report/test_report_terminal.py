"""What a stream can show, as its kind and the environment say."""

from __future__ import annotations

import io
import os

import pytest

from unclobber.report import _terminal, options_for


class Terminal(io.StringIO):
    """A stream that says it is a terminal and has no file behind it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        pytest.param(io.StringIO(), {}, (80, False), id="no terminal"),
        pytest.param(None, {}, (80, False), id="no stream"),
        pytest.param(object(), {}, (80, False), id="the program's own object"),
        pytest.param(io.StringIO(), {"COLUMNS": "100"}, (100, False), id="width by the environment"),
        pytest.param(io.StringIO(), {"COLUMNS": "wide"}, (80, False), id="no number"),
        pytest.param(Terminal(), {}, (132, True), id="terminal"),
        pytest.param(Terminal(), {"COLUMNS": "60"}, (60, True), id="terminal, other width"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, (132, False), id="NO_COLOR"),
        pytest.param(Terminal(), {"NO_COLOR": ""}, (132, True), id="empty NO_COLOR"),
        pytest.param(Terminal(), {"TERM": "dumb"}, (132, False), id="dumb"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": "1"}, (80, True), id="FORCE_COLOR"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": ""}, (80, False), id="empty FORCE_COLOR"),
        pytest.param(Terminal(), {"FORCE_COLOR": "1", "TERM": "dumb"}, (132, True), id="forced though dumb"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, (80, False), id="both"),
        pytest.param(None, {"FORCE_COLOR": "1"}, (80, False), id="a file"),
    ],
)
def test_options(monkeypatch, stream, environment, expected):
    """Width and colour."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Terminal, "fileno", lambda _: 1)
    monkeypatch.setattr(_terminal.os, "get_terminal_size", lambda _: os.terminal_size((132, 40)))
    options = options_for(stream)
    assert (options.width, options.colour) == expected


def test_a_terminal_without_a_file():
    """Where the width can't be asked for it is 80."""
    assert options_for(Terminal()).width == 80


@pytest.mark.parametrize(
    ("stream", "environment", "links"),
    [
        pytest.param(Terminal(), {}, True, id="terminal"),
        pytest.param(io.StringIO(), {"FORCE_COLOR": "1"}, False, id="colour in a log"),
        pytest.param(Terminal(), {"TERM": "dumb", "FORCE_COLOR": "1"}, False, id="dumb"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
    ],
)
def test_links(monkeypatch, stream, environment, links):
    """Only a terminal gets them."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert options_for(stream).links is links


def test_the_encoding():
    """The options hold the stream's encoding, and none for no stream."""
    assert options_for(io.TextIOWrapper(io.BytesIO(), encoding="ascii")).encoding == "ascii"
    assert options_for(None).encoding is None
