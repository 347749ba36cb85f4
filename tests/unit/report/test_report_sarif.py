"""SARIF: valid, the three places in order, the same for equal runs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from sample_findings import SOURCES, examples
from sarif_rules import problems

from unclobber.model import CODES, Finding, Report, Save, Site
from unclobber.report import render, to_sarif
from unclobber.report._about import ABOUT

EXAMPLES = examples()
BARE = Finding("UC101", "m")


def log(*findings: Finding) -> dict:
    return to_sarif(Report("refused", findings, torch_version="2.13.0", command=("train.py",), exit_code=1))


def result(finding: Finding) -> dict:
    return log(finding)["runs"][0]["results"][0]


@pytest.fixture(autouse=True)
def _in_the_sources(monkeypatch):
    """Paths are shown from the sources' folder."""
    monkeypatch.chdir(SOURCES)


@pytest.mark.parametrize("finding", [*EXAMPLES.values(), BARE], ids=[*EXAMPLES, "bare"])
def test_valid(finding):
    """Every kind of story is a valid log."""
    assert problems(log(finding)) == []


@pytest.mark.skipif("SARIF_SCHEMA" not in os.environ, reason="SARIF_SCHEMA names no schema file")
def test_valid_by_the_standards_own_schema():
    """The OASIS schema accepts all stories together."""
    schema = json.loads(Path(os.environ["SARIF_SCHEMA"]).read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(schema).validate(log(*EXAMPLES.values(), BARE))


RESULT = ("runs", 0, "results", 0)
PLACE = (*RESULT, "locations", 0, "physicalLocation")
STEP = (*RESULT, "codeFlows", 0, "threadFlows", 0, "locations", 0)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("version",), "2.0", "version"),
        (("runs", 0, "tool", "driver", "rules", 0, "id"), "UC999", "ruleIndex"),
        ((*RESULT, "level"), "fatal", "level"),
        ((*RESULT, "surprise"), 1, "unknown surprise"),
        ((*RESULT, "message"), {}, "lacks text"),
        ((*RESULT, "relatedLocations", 1, "id"), 1, "one id"),
        ((*STEP, "executionOrder"), 9, "order"),
        ((*PLACE, "region", "startColumn"), 0, "region"),
        ((*PLACE, "artifactLocation", "uri"), "a b", "uri"),
        ((*PLACE, "artifactLocation", "uriBaseId"), "X", "Base"),
    ],
)  # fmt: skip
def test_the_rules_notice(path, value, problem):
    """Each rule of the check can fail."""
    spoilt = log(EXAMPLES["plain"])
    at = spoilt
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert any(problem in text for text in problems(spoilt))


def test_the_log_of_the_plain_story(golden):
    """The whole text; paths and the version are the same everywhere."""
    text = json.loads(render(Report("refused", (EXAMPLES["plain"],), command=("train.py",)), "sarif"))
    run = text["runs"][0]
    assert run["originalUriBaseIds"] == {"SRCROOT": {"uri": SOURCES.as_uri() + "/"}}
    run["originalUriBaseIds"]["SRCROOT"]["uri"] = "file:///sources/"
    golden.check("plain.sarif", json.dumps(text, indent=2, ensure_ascii=False))


def test_the_three_places():
    """The result is at the write; the flow goes from the save over the write to the need."""
    found = result(EXAMPLES["plain"])
    flow = found["codeFlows"][0]["threadFlows"][0]["locations"]
    lines = [step["location"]["physicalLocation"]["region"]["startLine"] for step in flow]
    assert lines == [12, 14, 20]
    assert found["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 14, "startColumn": 9, "endLine": 14, "endColumn": 17, "snippet": {"text": "d[:] = 0"},
    }  # fmt: skip
    assert [other["message"]["text"].split()[0] for other in found["relatedLocations"]] == [
        "matmul",
        "needed",
    ]


def test_a_freed_graph_tells_who_freed_it():
    """UC301: saved, freed, needed."""
    flow = result(EXAMPLES["freed"])["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["kinds"] for step in flow] == [["acquire"], ["release"], ["usage"]]


def test_what_guard_repaired_is_a_note():
    """Nothing to fix."""
    assert result(EXAMPLES["repaired"])["level"] == "note"


def test_unknown_places_are_left_out():
    """No location is made up."""
    found = result(EXAMPLES["nothing-known"])
    assert found["locations"] == []
    assert "codeFlows" not in found
    assert "the line that overwrote it is not known" in found["message"]["text"]


def test_code_without_a_file_has_no_artifact():
    """``<stdin>`` is no path."""
    stdin = Site("<stdin>", 1, 1, 1, 4, "<module>", "f()", 1, 1, "f()")
    found = result(Finding("UC101", "m", saved=Save(stdin, (1,), "float32", 4, 0)))
    assert "physicalLocation" not in found["locations"][0]


def test_odd_paths_are_quoted(tmp_path, monkeypatch):
    """A name with spaces, a colon, percent and other alphabets is a valid URI, below the root and outside."""
    at = tmp_path / "数 a:b%20#?.py"
    place = Site(str(at), 1, 1, 1, 4, "f", "f()", 1, 1, "f()")
    finding = Finding("UC101", "m", saved=Save(place, (1,), "float32", 4, 0))
    assert problems(log(finding)) == []
    outside = result(finding)["locations"][0]["physicalLocation"]["artifactLocation"]
    assert outside == {"uri": at.as_uri().replace("%7E", "~")}
    monkeypatch.chdir(tmp_path)
    below = result(finding)["locations"][0]["physicalLocation"]["artifactLocation"]
    assert below == {"uri": "%E6%95%B0%20a%3Ab%2520%23%3F.py", "uriBaseId": "SRCROOT"}
    assert problems(log(finding)) == []


def test_the_order_does_not_depend_on_who_came_first():
    """The same findings in any order give the same log."""
    findings = list(EXAMPLES.values())
    assert log(*findings) == log(*findings[::-1])


def test_a_fingerprint_survives_moved_lines():
    """Lines above may grow; another write is another conflict."""
    plain = EXAMPLES["plain"]
    moved = replace(plain, saved=replace(plain.saved, site=replace(plain.saved.site, line=99, stack=())))
    other = replace(plain, writes=EXAMPLES["one-line"].writes)
    prints = [result(f)["partialFingerprints"] for f in (plain, moved, other)]
    assert prints[0] == prints[1] != prints[2]


def test_every_code_is_described():
    """A new code needs its sentences."""
    assert set(ABOUT) == set(CODES)
    assert all(text.endswith(".") for texts in ABOUT.values() for text in texts)
