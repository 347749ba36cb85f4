"""GitHub annotations: one command a line, nothing in it can end it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rendered import render
from sample_findings import SOURCES, examples

from unclobber.model import Finding, Report
from unclobber.report._repository import root

EXAMPLES = examples()


@pytest.fixture(autouse=True)
def _in_the_sources(monkeypatch):
    """Paths are shown from the sources' folder, as in a checkout."""
    monkeypatch.chdir(SOURCES)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(SOURCES))


def annotation(*findings: Finding) -> str:
    return render(Report("refused", findings), "github")


def parse(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner reads it: level, properties, message."""
    assert "\n" not in line
    _, head, message = line.split("::", 2)
    level, _, fields = head.partition(" ")
    properties = dict(field.split("=", 1) for field in fields.split(","))
    for code, char in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        properties = {key: value.replace(code, char) for key, value in properties.items()}
        if code not in ("%2C", "%3A"):
            message = message.replace(code, char)
    return level, properties, message


def test_the_annotations_of_all_stories(golden):
    """The whole text."""
    golden.check("all.github.txt", annotation(*EXAMPLES.values()))


@pytest.mark.parametrize("checkout", ["/a/checkout", "/z/checkout"])
def test_the_order_does_not_depend_on_where_the_checkout_is(monkeypatch, checkout):
    """Neither does any other line: two jobs' annotations of one commit can be compared."""
    gone = EXAMPLES["gone"]
    (write,) = gone.writes
    ours = replace(gone, writes=(replace(write, site=replace(write.site, path=f"{checkout}/net.py")),))
    monkeypatch.setattr("os.getcwd", lambda: checkout)
    files = [parse(line)[1]["file"] for line in annotation(ours, gone).splitlines()]
    assert files == ["/gone/net.py", "net.py"]


def test_position_and_title():
    """File, line and columns of the offending place."""
    level, properties, message = parse(annotation(EXAMPLES["plain"]))
    assert level == "error"
    assert properties == {
        "file": "train.py", "line": "14", "endLine": "14", "col": "9", "endColumn": "17",
        "title": "UC101 saved-overwritten",
    }  # fmt: skip
    assert message.splitlines()[:2] == [
        EXAMPLES["plain"].message,
        "train.py:12: matmul saved `d` (1x1 float32) here: grad of `w2` is dᵀ @ grad",
    ]


def test_no_columns_over_several_lines():
    """GitHub refuses columns there."""
    _, properties, _ = parse(annotation(EXAMPLES["tall"]))
    assert (properties["line"], properties["endLine"], "col" in properties) == ("14", "16", False)


def test_paths_start_at_the_checkout(monkeypatch):
    """``GITHUB_WORKSPACE`` beats the working directory."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(SOURCES.parent))
    assert parse(annotation(EXAMPLES["plain"]))[1]["file"] == "sources/train.py"


def test_paths_start_at_the_repository(tmp_path, monkeypatch):
    """Without a workflow it is the nearest folder with a ``.git``, else the working directory."""
    monkeypatch.delenv("GITHUB_WORKSPACE")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert root() == str(tmp_path / "below")
    (tmp_path / ".git").mkdir()
    assert root() == str(tmp_path)


def test_an_unknown_place_belongs_to_the_job():
    """No file is made up."""
    assert set(parse(annotation(EXAMPLES["nothing-known"]))[1]) == {"title"}


def test_levels():
    """What guard repaired is a notice, a warning a warning."""
    assert parse(annotation(EXAMPLES["repaired"]))[0] == "notice"
    assert parse(annotation(replace(EXAMPLES["silent"], confidence="medium")))[0] == "warning"


def test_hostile_text_stays_in_its_place():
    """Neither a message nor a path can start another command or forge a property."""
    saved = EXAMPLES["plain"].saved
    path = "/a,line=1::error::x%0A\n::stop-commands::y.py"
    site = replace(saved.site, path=path, statement="d")
    hostile = Finding("UC101", "100%\r\n::error::forged\x1b[31m %0A", saved=replace(saved, site=site))
    text = annotation(hostile)
    assert text.count("\n") == 0
    level, properties, message = parse(text)
    assert (level, properties["line"], properties["title"]) == ("error", "12", "UC101 saved-overwritten")
    assert message.splitlines()[0] == "100%  ::error::forged�[31m %0A"


def test_a_clean_run_says_nothing():
    """No findings, no annotations."""
    assert annotation() == ""
