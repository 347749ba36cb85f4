"""JSON: every key, by the schema that ships with the package."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest
from rendered import render
from sample_findings import SOURCES, examples

from unclobber import __version__
from unclobber.model import Edit, Finding, Fix, Report, Totals
from unclobber.report import RenderOptions, to_json

SCHEMA = json.loads(files("unclobber.report").joinpath("schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EXAMPLES = examples()
BARE = Finding("UC101", "m")


def report(*findings: Finding) -> Report:
    return Report("refused", findings, Totals(9, 3, 1, 4), "2.13.0", ("train.py", "--lr", "1"), 1)


def test_the_schema_is_one():
    """Draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("finding", [*EXAMPLES.values(), BARE], ids=[*EXAMPLES, "bare"])
def test_valid(finding):
    """What we write is what the schema says."""
    VALIDATOR.validate(to_json(report(finding)))


def _objects(value):
    """All dicts in a value, with the keys that lead there."""
    if isinstance(value, dict):
        yield (), value
        for key, inner in value.items():
            yield from (((key, *path), found) for path, found in _objects(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


@pytest.mark.parametrize(
    "key", ["code", "saved", "bytes", "overlaps_needed", "statement_line", "nth", "verified"]
)
def test_the_schema_notices_a_missing_key(key):
    """Without any one key the report is not valid: the test above can fail."""
    data = to_json(report(EXAMPLES["plain"]))
    for _, found in _objects(data):
        found.pop(key, None)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(data)


def _keys(schema: dict) -> set[str]:
    """The properties of a definition and of the one it extends."""
    own = set(schema.get("properties", {}))
    if base := schema.get("$ref"):
        own |= _keys(SCHEMA["$defs"][base.rsplit("/", 1)[1]])
    return own


def test_the_schema_describes_every_key():
    """A new key without a description fails here."""
    data = to_json(report(EXAMPLES["plain"], EXAMPLES["freed"]))
    plain, freed = data["findings"]
    definitions = SCHEMA["$defs"]
    assert set(data) == _keys(SCHEMA)
    assert set(data["totals"]) == _keys(SCHEMA["properties"]["totals"])
    assert set(plain) == _keys(definitions["finding"])
    assert set(plain["saved"]) == _keys(definitions["save"])
    assert set(plain["writes"][0]) == _keys(definitions["write"])
    assert set(plain["needed"]) == set(freed["freed"]) == _keys(definitions["need"])
    assert set(plain["fixes"][0]) == _keys(definitions["fix"])
    edit = Edit("/a.py", 2, "y *= 2\nz = y", "y = y * 2\nz = y")
    (fix,) = to_json(report(Finding("UC101", "m", fixes=(Fix("f", edits=(edit,)),))))["findings"][0]["fixes"]
    assert set(fix["edits"][0]) == _keys(definitions["edit"])
    assert (fix["edits"][0]["line"], fix["edits"][0]["end_line"]) == (2, 3)


def test_names_and_values_that_others_rely_on():
    """The documented keys, first and in the documented order."""
    data = to_json(report(EXAMPLES["plain"]))
    path = str(SOURCES / "train.py")
    stack = [
        {"path": path, "line": 12, "function": "Tower.forward"},
        {"path": path, "line": 19, "function": "<module>"},
    ]
    assert {key: data[key] for key in list(data)[:6]} == {
        "schema": 1,
        "unclobber": __version__,
        "torch": "2.13.0",
        "command": ["train.py", "--lr", "1"],
        "exit_code": 1,
        "outcome": "refused",
    }
    assert data["totals"] == {"saves": 9, "writes": 3, "conflicts": 1, "kept_bytes": 4}
    (finding,) = data["findings"]
    assert list(finding)[:9] == [
        "code", "name", "severity", "message", "saved", "writes", "needed", "harmless", "fixes",
    ]  # fmt: skip
    saved = {
        "path": path,
        "line": 12,
        "column": 13,
        "end_line": 12,
        "end_column": 32,
        "function": "Tower.forward",
        "source": "torch.matmul(d, w2)",
        "expression": "d",
        "name": None,
        "operation": "mm",
        "node": "MmBackward0",
        "role": "self",
        "shape": [1, 1],
        "dtype": "float32",
        "bytes": 4,
        "why": "grad of mat2 = self.T @ grad",
        "stack": stack,
    }
    assert list(finding["saved"].items())[: len(saved)] == list(saved.items())
    (write,) = finding["writes"]
    assert (write["line"], write["source"], write["statement"]) == (14, "d[:]", "d[:] = 0")
    assert (write["operation"], write["bumps_version"], write["library"]) == ("fill_", True, False)
    assert finding["needed"]["line"] == 20
    assert finding["freed"] is None
    assert [list(fix) for fix in finding["fixes"]] == [
        ["title", "diff", "verified", "code", "edits", "proved_by"]
    ] * 2
    assert finding["fixes"][0] == {
        "title": "save a copy: use `d.clone()` where it is read, or write into a new tensor",
        "diff": None,
        "verified": False,
        "code": None,
        "edits": [],
        "proved_by": None,
    }


def test_a_write_below_the_users_line_is_a_librarys():
    """``library`` with the frames that the line led to."""
    (write,) = to_json(report(EXAMPLES["several-files"]))["findings"][0]["writes"]
    assert write["library"] is True
    assert [frame["function"] for frame in write["below"]] == ["dropout"]


def test_unknown_places_are_null():
    """An unknown line is null, and what is known beside it stays."""
    finding = to_json(report(EXAMPLES["unknown"]))["findings"][0]
    assert (finding["saved"]["path"], finding["saved"]["line"]) == (None, None)
    assert (finding["saved"]["operation"], finding["saved"]["stack"]) == ("mm", [])


def test_text_is_the_same_data():
    """The text is JSON with the user's characters unescaped."""
    text = render(report(EXAMPLES["wide"]), "json", RenderOptions())
    assert json.loads(text) == to_json(report(EXAMPLES["wide"]))
    assert "结果" in text
