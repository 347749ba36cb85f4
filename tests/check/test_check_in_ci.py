"""``unclobber check`` in a pipeline: standard input, changed lines, comments, settings, notebooks."""

from __future__ import annotations

import io
import json
import linecache
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from unclobber.cli import main

WRONG = """\
import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
y += 1
y.sum().backward()
"""
MEDIUM = "import torch\nx = torch.ones(1, 3).expand(2, 3)\nx[:, :2] = 1\n"
SUMMARY = "SUMMARY: UC101 saved-overwritten {0}:5 overwrites what {0}:4 saved\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with a wrong program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "train.py").write_text(WRONG)
    return tmp_path


def checked(capsys, *words) -> tuple[int, str, str]:
    linecache.clearcache()  # as in a new process
    code = main(["check", *words])
    return code, *capsys.readouterr()


# --- comments ------------------------------------------------------------------------------------


def test_a_stale_comment_is_told(here, capsys):
    """Where its code isn't found at its line, whichever codes are chosen; one in use is not."""
    text = WRONG.replace("y += 1", "y += 1  # unclobber: ignore[UC101]")
    (here / "train.py").write_text(text + "z = 1  # unclobber: ignore[UC201]\n")
    code, out, _ = checked(capsys, "train.py")
    assert code == 0
    assert " ".join(out.split()).endswith(
        "note: `# unclobber: ignore[UC201]` at train.py:7 suppresses nothing: there was no UC201 in this "
        "check (a run may have one) note: 1 finding is suppressed: 1 by comment"
    )
    assert "UC201" in checked(capsys, "--select", "UC3", "train.py")[1]


def test_a_comment_for_a_rule_on_request_is_in_use(here, capsys):
    """What `--all` finds is found, so a check without it calls no comment on it stale."""
    (here / "train.py").write_text(
        "import torch\ndef f(x: torch.Tensor):\n    y = x.exp()\n    y += 1  # unclobber: ignore\n"
        "    return y\n"
    )
    assert checked(capsys, "train.py")[:2] == (0, "no findings in 1 file (5 lines)\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y += 1", "y += 1  # unclobber: ignore[UC101]"),
        ("y += 1  # why not", "y += 1  # why not  # unclobber: ignore[UC101]"),
        ("y += 1  # unclobber: ignore[UC201]", "y += 1  # unclobber: ignore[UC101, UC201]"),
        ("y.add_(\n    1\n)", "y.add_(\n    1\n)  # unclobber: ignore[UC101]"),
    ],
)
def test_comments_are_added(here, capsys, before, after):
    """The next check finds nothing; nothing else in the file changes, not even its line ends or its mode."""
    path = here / "train.py"
    path.write_bytes(WRONG.replace("y += 1", before).replace("\n", "\r\n").encode())
    path.chmod(0o754)
    assert checked(capsys, "--add-ignore", "train.py")[:2] == (0, "train.py: 1 line commented\n")
    assert path.read_bytes() == WRONG.replace("y += 1", after).replace("\n", "\r\n").encode()
    assert path.stat().st_mode & 0o777 == 0o754
    assert checked(capsys, "train.py")[0] == 0


def test_no_comment_is_added_to_a_text(here, capsys):
    """The line of the write may go on with a text of several lines."""
    text = WRONG.replace("y += 1", "y += 1; s = '''a\nb'''")
    (here / "train.py").write_text(text)
    assert "none is added" in checked(capsys, "--add-ignore", "train.py")[1]
    assert (here / "train.py").read_text() == text


# --- standard input, and what is printed ---------------------------------------------------------


def with_stdin(monkeypatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_standard_input_has_the_settings_of_its_name(here, capsys, monkeypatch):
    """An editor checks a text that is not saved yet, in the project of its file."""
    (here / "sub").mkdir()
    with_stdin(monkeypatch, WRONG.encode())
    code, out, _ = checked(capsys, "-", "--stdin-filename", "sub/new.py")
    assert code == 1
    assert " --> sub/new.py:5" in out
    assert "5 | y += 1\n  | ^^^^^^ overwritten here" in out
    (here / "sub" / "pyproject.toml").write_text('[tool.unclobber]\nignore = ["UC1"]\n')
    with_stdin(monkeypatch, WRONG.encode())
    assert checked(capsys, "-", "--stdin-filename", "sub/new.py")[0] == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"x = = 1\n", "unclobber: <stdin>, line 1, column 5: invalid syntax."),
        (b"x = '\xe4'", "unclobber: standard input is no UTF-8"),
        (b"x = 1  # unclobber: ignore UC101\n", "unclobber: <stdin>:1: `# unclobber: ignore UC101` is not"),
    ],
)
def test_a_wrong_text_of_standard_input(here, capsys, monkeypatch, text, said):
    """It is named as such, with its line."""
    with_stdin(monkeypatch, text)
    code, out, err = checked(capsys, "-")
    assert (code, out) == (2, "")
    assert err.startswith(said)


@pytest.mark.parametrize("name", [(), ("--stdin-filename", "train.py")])
def test_no_comment_is_added_to_standard_input(here, capsys, monkeypatch, name):
    """There is no file to write, or its lines may be others than those of the text."""
    with_stdin(monkeypatch, f"# not saved yet\n{WRONG}".encode())
    code, out, err = checked(capsys, "--add-ignore", *name, "-")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("unclobber: --add-ignore writes comments into files, and `-` is none. ")
    assert (here / "train.py").read_text() == WRONG


def test_statistics_and_quiet(here, capsys):
    """Counts alone, or a line for each finding; nothing where nothing is found."""
    (here / "more.py").write_text(WRONG + WRONG + MEDIUM)
    code, out, _ = checked(capsys, "--statistics", ".")
    assert (code, out) == (1, "    3  UC101  saved-overwritten\n    1  UC207  overlapping-memory\n")
    code, out, _ = checked(capsys, "-q", "train.py")
    assert (code, out) == (1, SUMMARY.format("train.py"))
    assert checked(capsys, "-q", "--exit-zero", "train.py")[0] == 0
    (here / "clean.py").write_text("import torch\n")
    assert checked(capsys, "-q", "clean.py") == (0, "", "")
    assert checked(capsys, "-q", "--format", "json", "clean.py")[0] == 2


# --- changed lines -------------------------------------------------------------------------------


def git(*words) -> None:
    person = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *person, *words], check=True, capture_output=True)


def test_only_what_a_branch_changed(here, capsys):
    """An old finding is left out, a new one in an old file and in an untracked file are told."""
    (here / "old.py").write_text(WRONG)
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "all")
    git("checkout", "-qb", "topic")
    (here / "train.py").write_text("# moved\n" + WRONG + WRONG.replace("exp", "sqrt"))
    git("commit", "-qam", "more")
    (here / "new.py").write_text(WRONG)
    code, out, err = checked(capsys, "--since", "main", "-q", ".")
    assert (code, err) == (1, "")
    assert [line.split()[3] for line in out.splitlines()] == ["new.py:5", "train.py:12"]
    git("checkout", "-q", "main")
    (here / "new.py").unlink()
    assert checked(capsys, "--since", "main", ".") == (0, "no findings in 0 files (0 lines)\n", "")
    # A save that moved behind an old write is new, too.
    (here / "old.py").write_text(WRONG.replace("y = w.exp()", "y = w.sigmoid()"))
    assert checked(capsys, "--since", "main", "-q", ".")[1] == SUMMARY.format("old.py")


# Added lines that a diff shows like the headers of files and hunks.
LIKE_HEADERS = "TEXT = '''\n++ b.py\n\f@@ -1 +1 @@\n-- a.py\n\fdiff --git a b\n++ b.py\n'''\n"


@pytest.mark.parametrize(
    ("folder", "before", "after", "settings"),
    [
        pytest.param("x", "", LIKE_HEADERS, {}, id="lines like headers"),
        pytest.param("x", "-- a.py\n", LIKE_HEADERS, {}, id="and like both of them"),
        pytest.param('q"\t\\ü', "", "", {}, id="a name that git quotes"),
        pytest.param('q"\t\\ü', "", "", {"core.quotePath": "off"}, id="a name that git quotes in part"),
        pytest.param("x y", "", "", {}, id="a name that git ends with a tab"),
        pytest.param("x", "", "", {"diff.relative": "true"}, id="paths that start at the folder"),
        pytest.param("x", "", "", {"diff.noprefix": "true"}, id="paths without a prefix"),
        pytest.param("x", "", "", {"diff.mnemonicPrefix": "true"}, id="paths with another prefix"),
        pytest.param("x", "", "", {"color.diff": "always", "diff.colorMoved": "zebra"}, id="colours"),
        pytest.param("x", "", "", {"diff.external": "true"}, id="another program"),
        pytest.param("x", "", "", {"diff.python.textconv": "true"}, id="another text"),
    ],
)
def test_a_change_however_git_shows_it(here, capsys, monkeypatch, folder, before, after, settings):
    """Names, lines and settings of git that change what a diff looks like hide no changed line."""
    (here / folder).mkdir()
    path = here / folder / "t.py"
    path.write_text(before + WRONG.replace("y += 1", "pass"))
    git("init", "-q", "-b", "main")
    (here / ".git" / "info" / "attributes").write_text("*.py diff=python\n")
    git("add", ".")
    git("commit", "-qm", "all")
    path.write_text(after + WRONG)
    for name, value in settings.items():
        git("config", name, value)
    monkeypatch.chdir(here / folder)
    code, out, _ = checked(capsys, "--since", "main", "-q", ".")
    line = 5 + after.count("\n")
    assert (code, out.split()[1:5]) == (1, ["UC101", "saved-overwritten", f"t.py:{line}", "overwrites"])


def test_a_change_below_a_link(here, capsys, tmp_path_factory):
    """A repository and a file of it are known by links, too, tracked or not."""
    git("init", "-q", "-b", "main")
    git("add", "train.py")
    git("commit", "-qm", "all")
    (here / "train.py").write_text(WRONG.replace("y += 1", "y *= 2"))
    (here / "new.py").write_text(WRONG)
    links = tmp_path_factory.mktemp("links")
    (links / "folder").symlink_to(here)
    (links / "file.py").symlink_to(here / "train.py")
    for path, count in ((links / "folder", 2), (links / "file.py", 1)):
        code, out, _ = checked(capsys, "--since", "main", "-q", str(path))
        assert (code, out.count("\n")) == (1, count)


def test_a_branch_that_is_not_there(here, capsys):
    """One line says what git says."""
    git("init", "-q")
    code, out, err = checked(capsys, "--since", "nowhere", ".")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("unclobber: --since can't compare: ")


# --- settings ------------------------------------------------------------------------------------


def test_the_settings_of_a_check(here, capsys):
    """Files to leave out, the least confidence, and a baseline; the command line precedes them."""
    (here / "medium.py").write_text(MEDIUM)
    (here / "old").mkdir()
    (here / "old" / "train.py").write_text(WRONG)
    checked(capsys, "--write-baseline", "known.json", "train.py")
    (here / "pyproject.toml").write_text(
        '[tool.unclobber]\nexclude = ["old/"]\nconfidence = "high"\nbaseline = "known.json"\n'
    )
    code, out, _ = checked(capsys, ".")
    assert (code, out.splitlines()[0]) == (0, "no findings in 2 files (9 lines)")
    code, out, _ = checked(capsys, "--confidence", "medium", ".")
    assert (code, "UC207" in out) == (1, True)
    code, out, _ = checked(capsys, "old/train.py")
    assert (code, "1 named file left out by `exclude` in the settings" in out) == (0, True)
    (here / "known.json").unlink()
    assert checked(capsys, ".")[2].startswith("unclobber: there is no baseline ")


# --- notebooks -----------------------------------------------------------------------------------


def notebook(path: Path, *cells: str) -> None:
    """Write a notebook with a text cell in front of its code."""
    texts = [{"cell_type": "markdown", "metadata": {}, "source": ["y += 1  \n", "(a note)"]}]
    code = [
        {"cell_type": "code", "metadata": {}, "source": dedent(cell).splitlines(keepends=True), "outputs": []}
        for cell in cells
    ]
    document = {"cells": texts + code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(document), encoding="utf-8")


CELLS = (
    "%matplotlib inline\n!pip list\nimport torch\nfiles = !ls\nw = torch.ones(3, requires_grad=True)",
    "%%bash\nif then",
    "%%time\ny = w.exp()\nhelp?",
    "# mend\n\ny += 1\ny.sum().backward()",
)


def test_a_notebook_is_read(here, capsys):
    """Cells share names; cell and line of both places are named, and IPython's lines are left out."""
    notebook(here / "train.ipynb", *CELLS)
    code, out, err = checked(capsys, "train.ipynb")
    assert (code, err) == (1, "")
    assert out == dedent("""\
        error[UC101] saved-overwritten: backward fails here if this runs with gradients
            on: `y` is overwritten after `exp` saved its result for backward
         --> train.ipynb:cell[4]:3
          |
        3 | y += 1
          | ^^^^^^ overwritten here (`+=`)
        4 | y.sum().backward()
          | ------------------ needed here
          |
         ::: train.ipynb:cell[3]:2
          |
        2 | y = w.exp()
          |     ------- `exp` saves its result here
          |
          = help: write `y` into a new tensor unless other code holds the old one, in
                  train.ipynb:cell[4]:3: `y = y + 1`
                  a candidate, which was not run
          = help: or keep the program as it is and run it under unclobber.guard()
          = help: `unclobber run` decides: nothing was run here (confidence: high)
          = more: unclobber explain UC101

        SUMMARY: UC101 saved-overwritten train.ipynb:cell[4]:3 overwrites what train.ipynb:cell[3]:2 saved
        """)
    (here / "train.py").unlink()
    assert "train.ipynb:cell[4]:3" in checked(capsys, "-q", ".")[1]


def test_a_notebook_in_the_formats(here, capsys):
    """Path and cell stand apart; no line is given where it would be one of the file's JSON."""
    notebook(here / "train.ipynb", *CELLS)
    (found,) = json.loads(checked(capsys, "--format", "json", "train.ipynb")[1])["findings"]
    places = [(found[k]["path"], found[k]["cell"], found[k]["line"]) for k in ("saved", "needed")]
    assert places == [(str(here / "train.ipynb"), 3, 2), (str(here / "train.ipynb"), 4, 4)]
    (run,) = json.loads(checked(capsys, "--format", "sarif", "train.ipynb")[1])["runs"]
    (result,) = run["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "train.ipynb"
    assert location["physicalLocation"]["region"]["startLine"] == 3
    assert location["properties"] == {"cell": 4}
    assert "fixes" not in result
    out = checked(capsys, "--format", "github", "train.ipynb")[1]
    assert out.startswith("::error file=train.ipynb,title=UC101 saved-overwritten::")
    assert "train.ipynb:cell[4]:3: overwritten here" in out
    assert "train.ipynb:cell[4]:3" in checked(capsys, "--format", "html", "train.ipynb")[1]


def test_the_means_against_a_finding_hold_for_notebooks(here, capsys):
    """Comments in the cell, globs of the file, and baselines, which don't count cells."""
    notebook(here / "train.ipynb", *CELLS)
    checked(capsys, "--write-baseline", "known.json", "train.ipynb")
    notebook(here / "train.ipynb", "x = 1", *CELLS)
    assert checked(capsys, "--baseline", "known.json", "train.ipynb")[0] == 0
    (here / "pyproject.toml").write_text('[tool.unclobber.per-file-ignores]\n"*.ipynb" = ["UC1"]\n')
    assert checked(capsys, "train.ipynb")[0] == 0
    (here / "pyproject.toml").unlink()
    notebook(here / "train.ipynb", *CELLS[:3], CELLS[3].replace("+= 1", "+= 1  # unclobber: ignore[UC101]"))
    assert checked(capsys, "train.ipynb")[0] == 0
    notebook(here / "train.ipynb", *CELLS[:3], CELLS[3].replace("+= 1", "+= 1  # unclobber: ignore UC101"))
    code, _, err = checked(capsys, "train.ipynb")
    assert (code, err.startswith("unclobber: train.ipynb:cell[4]:3: `# unclobber: ignore UC101` is")) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "unclobber: train.ipynb can't be read: it has no cells of a notebook."),
        ("not JSON", "unclobber: train.ipynb can't be read: Expecting value: line 1"),
    ],
)
def test_what_is_no_notebook(here, capsys, text, said):
    """Named, it is an error; in a folder, a note."""
    (here / "train.ipynb").write_text(text)
    assert checked(capsys, "train.ipynb")[::2] == (2, checked(capsys, "train.ipynb")[2])
    assert checked(capsys, "train.ipynb")[2].startswith(said)
    assert main(["check", "--exit-zero", "."]) == 0


def test_a_cell_that_is_no_python(here, capsys):
    """Its own line is named, with a caret, even if it is the only cell."""
    notebook(here / "train.ipynb", "x = 1\ny = (2")
    code, _, err = checked(capsys, "train.ipynb")
    assert code == 2
    assert err.startswith("unclobber: train.ipynb:cell[1], line 2, column 5: '(' was never closed.")
    assert err.endswith("  y = (2\n      ^\n")


def test_the_cells_beside_one_that_is_no_python(here, capsys):
    """In a folder the wrong cell is a note, and the others are checked."""
    notebook(here / "train.ipynb", CELLS[0], "y = (2", *CELLS[2:], "z = (")
    code, out, _ = checked(capsys, ".")
    words = " ".join(out.split())
    assert code == 1
    assert "SUMMARY: UC101 saved-overwritten train.ipynb:cell[4]:3 overwrites" in words
    assert "train.ipynb is no Python that this interpreter reads: cell[2], line 1: '(' was never" in words


def test_commands_without_a_mark(here, capsys):
    """IPython takes ``cd data`` for a command, and its next line, too, if a command ends in a backslash."""
    notebook(here / "train.ipynb", f"!pip install a \\\n    b\ncd data\n{CELLS[0]}", *CELLS[1:])
    code, out, err = checked(capsys, "train.ipynb")
    assert (code, err) == (1, "")
    assert "train.ipynb:cell[4]:3 overwrites" in out


def test_a_notebook_without_code(here, capsys):
    notebook(here / "train.ipynb")
    assert checked(capsys, "train.ipynb")[:2] == (0, "no findings in 1 file (0 lines)\n")


def test_a_wrong_cell_beside_one_that_is_nested_too_deeply(here, capsys):
    """Nothing raises: the file is a note."""
    notebook(here / "train.ipynb", "import torch", "y = (2", f"z = x{' + 1' * 4_000}")
    assert checked(capsys, "--exit-zero", ".")[0] == 0
