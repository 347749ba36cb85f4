"""The greppable line of each family."""

from __future__ import annotations

import dataclasses

import pytest
from sample_findings import SOURCES, examples

from unclobber.explain.boundary import bare_finding
from unclobber.model import CODES, Finding, Need
from unclobber.report._text import summary_line

EXAMPLES = examples()
PLAIN = EXAMPLES["plain"]

WORDS = {
    "UC101": "train.py:14 overwrites what train.py:12 saved",
    "UC102": "train.py:14 overwrites what train.py:12 saved",
    "UC103": "train.py:14 overwrites what train.py:12 kept on ctx",
    "UC104": "train.py:14 changes a gradient that train.py:20 still needs",
    "UC105": "train.py:20 recomputes other values than train.py:12 saved",
    "UC201": "train.py:14 writes to a leaf that requires grad, made at train.py:12",
    "UC202": "train.py:14 writes to a view of a leaf that requires grad, made at train.py:12",
    "UC203": "train.py:14 writes to one of several views made at train.py:12",
    "UC204": "train.py:14 writes to a view made with grad mode off at train.py:12",
    "UC205": "train.py:14 writes to a view from a custom Function, made at train.py:12",
    "UC206": "train.py:14 uses an inference tensor made at train.py:12",
    "UC207": "train.py:14 writes to an expanded tensor, made at train.py:12",
    "UC208": "train.py:14 detaches a view in place, made at train.py:12",
    "UC209": "train.py:14 writes a batch to a tensor without one, made at train.py:12",
    "UC301": "train.py:20 needs the graph that train.py:20 freed",
}


@pytest.fixture(autouse=True)
def _beside_the_sources(monkeypatch):
    monkeypatch.chdir(SOURCES)


@pytest.mark.parametrize("code", WORDS)
def test_wording(code):
    """Code, name, the offending line and the line it clashes with."""
    freed = PLAIN.needed if code == "UC301" else None
    finding = dataclasses.replace(
        PLAIN, code=code, freed=freed, writes=() if code == "UC301" else PLAIN.writes
    )
    assert summary_line(finding) == f"SUMMARY: {code} {CODES[code].name} {WORDS[code]}"


@pytest.mark.parametrize("code", CODES)
def test_nothing_known(code):
    """A line is never invented, and nothing of the template shows."""
    line = summary_line(Finding(code, "m", needed=Need(None)))
    assert line.startswith(f"SUMMARY: {code} {CODES[code].name} an unknown line ")
    assert ".py" not in line
    assert "{" not in line


def test_an_input_that_is_overwritten_unmarked():
    """Nothing was kept on ctx there."""
    assert summary_line(dataclasses.replace(PLAIN, code="UC103", variant="unmarked")) == (
        "SUMMARY: UC103 saved-on-ctx train.py:14 overwrites what train.py:12 handed to it, without mark_dirty"
    )


def test_an_input_that_shares_the_written_memory():
    """Nothing is expanded there."""
    assert summary_line(dataclasses.replace(PLAIN, code="UC207", variant="input")) == (
        "SUMMARY: UC207 overlapping-memory train.py:14 writes to memory that it still reads"
    )


def test_a_story_that_could_not_be_told_takes_the_usual_words():
    """That its role and its place are not known says nothing of what the Function did."""
    saved = dataclasses.replace(PLAIN.saved, site=None, role=None)
    for known in (saved, None):
        assert summary_line(bare_finding("UC103", "a fault", saved=known)) == (
            "SUMMARY: UC103 saved-on-ctx an unknown line overwrites what an unknown line kept on ctx"
        )
    assert summary_line(bare_finding("UC103", "a fault", variant="dirty")).endswith(
        "an unknown line changes a tensor in place that is marked dirty and not returned"
    )


def test_harmless_is_not_called_overwriting():
    """A write to other elements did not overwrite what was saved."""
    assert summary_line(EXAMPLES["harmless"]) == (
        "SUMMARY: UC101 saved-overwritten harmless.py:6 moves the version counter of what harmless.py:5 saved"
    )


def test_it_stays_one_line():
    """Even a path with a newline in it can't break the line."""
    (write,) = PLAIN.writes
    write = dataclasses.replace(write, site=dataclasses.replace(write.site, path="/a\nb.py"))
    assert "\n" not in summary_line(dataclasses.replace(PLAIN, writes=(write,)))
