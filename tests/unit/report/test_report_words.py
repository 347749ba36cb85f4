"""Wording: the docstrings' examples, wrapping, paths; and what importing us costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unclobber.report import _words
from unclobber.report._cells import clean, clip_left, width, wrap
from unclobber.settings import shown_path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/venv/lib/python3.11/site-packages/torch/nn/functional.py", "torch/nn/functional.py"),
        ("/usr/lib/python3.11/contextlib.py", "contextlib.py"),
        ("/elsewhere/train.py", "/elsewhere/train.py"),
        ("<string>", "<string>"),
    ],
)
def test_paths(path, shown, tmp_path, monkeypatch):
    """As short as it stays clear."""
    monkeypatch.chdir(tmp_path)
    assert _words.path(path) == shown


@pytest.mark.parametrize("shown", [_words.path, shown_path])
def test_a_path_below_the_working_directory_is_relative(tmp_path, monkeypatch, shown):
    """And one beside it is not, whatever its name starts with."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert shown(str(tmp_path / "here" / "a" / "b.py")) == str(Path("a/b.py"))
    assert shown(str(tmp_path / "here" / "..dots.py")) == "..dots.py"
    assert shown(str(tmp_path / "hereafter" / "b.py")) == str(tmp_path / "hereafter" / "b.py")


def test_a_home_is_not_named(tmp_path, monkeypatch):
    """A page that is sent on says ``~`` for it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _words.path(str(tmp_path / "b.py")) == str(Path("~/b.py"))
    assert _words.path(f"{tmp_path}er/b.py") == f"{tmp_path}er/b.py"


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    """A report is still written when the program has removed the folder it ran in."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert _words.path("/a/b.py") == "/a/b.py"


@given(
    st.text(st.sampled_from("ab `数,\xa0\n\t\x1b🙂"), max_size=120), st.integers(4, 60), st.integers(4, 60)
)
def test_wrapping_loses_nothing(text, first, rest):
    """Every line fits, and together they are the words of the text."""
    lines = wrap(text, first, rest)
    assert width(lines[0]) <= first
    assert all(width(line) <= rest for line in lines[1:])
    assert "".join("".join(lines).split()) == "".join(clean(text).split())


def test_wrapping_keeps_together_what_belongs_together():
    """Code in backticks and solid groups move to the next line whole."""
    assert wrap("write `a + b` now", 11) == ["write", "`a + b` now"]
    assert wrap(f"here {_words.solid('(version 0 -> 1)')}", 18) == ["here", "(version 0 -> 1)"]
    assert wrap(_words.solid("a group that is too long"), 10) == ["a group", "that is", "too long"]


@given(st.text(st.sampled_from("/ab数.py"), max_size=60), st.integers(3, 40))
def test_a_clipped_path_keeps_its_end(path, room):
    """The file's name and line say most."""
    shown = clip_left(path, room)
    assert width(shown) <= room
    assert path.endswith(shown.lstrip("… "))


HEAVY = ("torch", "rich", "click", "jinja2")


def _loaded_after(code: str) -> list[str]:
    """Which heavy packages a fresh interpreter has loaded after some code."""
    program = f"{code}\nimport sys; print(*[name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_importing_reports_is_cheap():
    """No heavy package is loaded before something is rendered; the last line shows that it would be seen."""
    source = str(Path(_words.__file__).parents[2])
    start = f"import sys; sys.path.insert(0, {source!r}); import unclobber.report"
    assert _loaded_after(start) == []
    assert _loaded_after(f"{start}; import rich.cells") == ["rich"]


def test_code_to_write_is_never_cut():
    """The end of an edit is often all that is new in it."""
    code = "weights = torch.softmax(self.head(hidden).squeeze(-1), dim=-1).clone()"
    assert _words.code_after("write", code) == f"write: `{code}`"
