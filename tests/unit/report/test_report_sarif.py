"""SARIF: valid, the three places in order, the same for equal runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rendered import render
from sample_findings import SOURCES, examples
from sarif_rules import problems

from unclobber.model import CODES, Edit, Finding, Fix, Report, Save, Site
from unclobber.report._sarif import to_sarif

EXAMPLES = examples()
BARE = Finding("UC101", "m")


def log(*findings: Finding) -> dict:
    return to_sarif(Report("refused", findings, torch_version="2.13.0", command=("train.py",), exit_code=1))


def result(finding: Finding) -> dict:
    return log(finding)["runs"][0]["results"][0]


@pytest.fixture(autouse=True)
def _in_the_sources(monkeypatch):
    """Paths are shown from the sources' folder, as in a checkout."""
    monkeypatch.chdir(SOURCES)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(SOURCES))


@pytest.mark.parametrize("finding", [*EXAMPLES.values(), BARE], ids=[*EXAMPLES, "bare"])
def test_valid(finding):
    """Every kind of story is a valid log."""
    assert problems(log(finding)) == []


RESULT = ("runs", 0, "results", 0)
PLACE = (*RESULT, "locations", 0, "physicalLocation")
STEP = (*RESULT, "codeFlows", 0, "threadFlows", 0, "locations", 0)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("version",), "2.0", "$.version"),
        (("runs", 0, "tool", "driver", "rules", 0, "id"), "UC999", "ruleIndex"),
        ((*RESULT, "level"), "fatal", "'fatal' is not one of"),
        ((*RESULT, "surprise"), 1, "'surprise' was unexpected"),
        ((*RESULT, "message"), {}, "$.runs[0].results[0].message"),
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


CANDIDATE = Fix(
    "write `d` into a new tensor",
    code="d = torch.zeros_like(d)",
    edits=(Edit(str(SOURCES / "train.py"), 14, "        d[:] = 0", "        d = torch.zeros_like(d)"),),
    proved_by="unclobber fix train.py",
)


def test_a_candidate_is_a_fix():
    """The region is the whole line without its end; what takes its place has none either."""
    finding = replace(EXAMPLES["plain"], fixes=(CANDIDATE,))
    (fix,) = result(finding)["fixes"]
    assert problems(log(finding)) == []
    assert fix["description"]["text"].endswith(
        "(a candidate: `unclobber fix train.py` proves it or finds another)"
    )
    assert fix["artifactChanges"] == [
        {
            "artifactLocation": {"uri": "train.py", "uriBaseId": "SRCROOT"},
            "replacements": [
                {
                    "deletedRegion": {"startLine": 14, "startColumn": 1, "endLine": 14, "endColumn": 17},
                    "insertedContent": {"text": "        d = torch.zeros_like(d)"},
                }
            ],
        }
    ]


def test_words_alone_are_no_fix():
    """SARIF's fixes are edits."""
    assert "fixes" not in result(EXAMPLES["plain"])


def test_paths_start_at_the_repository(tmp_path, monkeypatch):
    """Also in a folder below its root: that is where code scanning looks for them."""
    monkeypatch.delenv("GITHUB_WORKSPACE")
    (tmp_path / ".git").mkdir()
    (tmp_path / "pkg").mkdir()
    monkeypatch.chdir(tmp_path / "pkg")
    place = Site(str(tmp_path / "pkg" / "a.py"), 1, 1, 1, 4, "f", "f()", 1, 1, "f()")
    finding = Finding("UC101", "m", saved=Save(place, (1,), "float32", 4, 0))
    assert result(finding)["locations"][0]["physicalLocation"]["artifactLocation"] == {
        "uri": "pkg/a.py", "uriBaseId": "SRCROOT",
    }  # fmt: skip
    assert log(finding)["runs"][0]["originalUriBaseIds"] == {"SRCROOT": {"uri": tmp_path.as_uri() + "/"}}


def test_where_to_read_on():
    """The tool and each of its rules have an address."""
    driver = log(EXAMPLES["plain"], EXAMPLES["leaf"], EXAMPLES["freed"])["runs"][0]["tool"]["driver"]
    addresses = [driver["informationUri"], *(rule["helpUri"] for rule in driver["rules"])]
    assert len(set(addresses)) == 4
    assert all(address.startswith("https://") for address in addresses)


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
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
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
    texts = [text for entry in CODES.values() for text in (entry.meaning, entry.advice)]
    assert all(text.endswith(".") for text in texts)
