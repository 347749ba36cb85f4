"""Findings that are suppressed, in each format."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest
from rendered import render
from sample_findings import examples

from unclobber.model import Report, Suppressed

ONE, TWO, THREE = list(examples().values())[:3]
REPORT = Report("silent", (ONE,), suppressed=(Suppressed(TWO, "comment"), Suppressed(THREE, "baseline")))
LINE = "2 findings are suppressed: 1 by comment, 1 in the baseline"


@pytest.mark.parametrize("format", ["text", "github", "html"])
def test_one_line_counts_them(format):
    text = render(REPORT, format)
    assert LINE in " ".join(text.split())
    assert LINE not in render(Report("silent", (ONE,)), format)


def test_json_keeps_them_under_a_key_of_their_own():
    document = json.loads(render(REPORT, "json"))
    jsonschema.validate(document, json.loads((files("unclobber.report") / "schema.json").read_text("utf-8")))
    assert list(document)[-2] == "suppressed"
    assert [(one["code"], one["suppressed_by"]) for one in document["suppressed"]] == [
        (TWO.code, "comment"), (THREE.code, "baseline"),
    ]  # fmt: skip
    assert len(document["findings"]) == 1


def test_sarif_has_them_as_suppressed_results():
    (run,) = json.loads(render(REPORT, "sarif"))["runs"]
    found = [result.get("suppressions") for result in run["results"]]
    assert sorted(one[0]["kind"] for one in found if one) == ["external", "inSource"]
    assert len(found) == 3
    assert {result["ruleId"] for result in run["results"]} <= {
        rule["id"] for rule in run["tool"]["driver"]["rules"]
    }
