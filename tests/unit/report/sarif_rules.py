"""What SARIF 2.1.0 asks of a log: its schema, and what no schema can say of indices, orders and regions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = json.loads((Path(__file__).parent / "sarif-2.1.0.schema.json").read_text(encoding="utf-8"))
"""SARIF 2.1.0 as SchemaStore has it (github.com/SchemaStore/schemastore, src/schemas/json/sarif-2.1.0.json,
at 3b6446ad; Apache License 2.0)."""
_URI = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=@/-]|%[0-9A-F]{2})+")


def problems(log: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a log; empty for a valid one."""
    found = [f"{error.json_path}: {error.message}" for error in _VALIDATOR.iter_errors(log)]
    for run in log.get("runs", []):
        _run(run, found)
    return found


_VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def _run(run: dict[str, Any], found: list[str]) -> None:
    driver = run.get("tool", {}).get("driver", {})
    rules = driver.get("rules", [])
    bases = run.get("originalUriBaseIds", {})
    found += [f"base {name} does not end in /" for name, at in bases.items() if not at["uri"].endswith("/")]
    for result in run.get("results", []):
        _result(result, rules, bases, found)


def _result(result: dict[str, Any], rules: list[Any], bases: dict[str, Any], found: list[str]) -> None:
    index = result.get("ruleIndex", -1)
    if not 0 <= index < len(rules) or rules[index].get("id") != result.get("ruleId"):
        found.append(f"ruleIndex {index} is not {result.get('ruleId')}")
    related = result.get("relatedLocations", [])
    if len({location.get("id") for location in related}) < len(related):
        found.append("two related locations have one id")
    for location in [*result.get("locations", []), *related]:
        _location(location, bases, found)
    for fix in result.get("fixes", []):
        for change in fix.get("artifactChanges", []):
            _artifact(change.get("artifactLocation", {}), bases, found)
            for replacement in change.get("replacements", []):
                _region(replacement.get("deletedRegion", {}), found)
    for flow in result.get("codeFlows", []):
        for thread in flow.get("threadFlows", []):
            orders = [step.get("executionOrder") for step in thread.get("locations", [])]
            if orders != sorted(orders) or not orders:
                found.append("steps out of order")
            for step in thread.get("locations", []):
                _location(step.get("location", {}), bases, found)


def _location(location: dict[str, Any], bases: dict[str, Any], found: list[str]) -> None:
    if (physical := location.get("physicalLocation")) is None:
        return
    _artifact(physical.get("artifactLocation", {}), bases, found)
    _region(physical.get("region", {}), found)


def _artifact(artifact: dict[str, Any], bases: dict[str, Any], found: list[str]) -> None:
    uri = artifact.get("uri", "")
    if not _URI.fullmatch(uri.removeprefix("file://")):
        found.append(f"uri {uri!r}")
    if uri.startswith("file:") == ("uriBaseId" in artifact):
        found.append("a path is either absolute or has a base")
    if artifact.get("uriBaseId", next(iter(bases), None)) not in bases:
        found.append("uriBaseId")


def _region(region: dict[str, Any], found: list[str]) -> None:
    start = region.get("startLine", 0), region.get("startColumn", 0)
    end = region.get("endLine", 0), region.get("endColumn", 0)
    if min(*start, *end) < 1 or end < start:
        found.append(f"region {start} to {end}")
