"""What SARIF 2.1.0 asks of the parts that we write: required keys, known keys, known words, valid indices.

A stand-in for the standard's JSON schema, which is not ours to ship. ``SARIF_SCHEMA=file`` lets the
tests validate against that, too.
"""

from __future__ import annotations

import re
from typing import Any

REQUIRED: dict[str, set[str]] = {
    "log": {"version", "runs"},
    "run": {"tool"},
    "tool": {"driver"},
    "driver": {"name"},
    "rule": {"id"},
    "invocation": {"executionSuccessful"},
    "result": {"message"},
    "codeFlow": {"threadFlows"},
    "threadFlow": {"locations"},
    "message": {"text"},
}
KNOWN: dict[str, set[str]] = {
    "log": {"$schema", "version", "runs"},
    "run": {"tool", "invocations", "originalUriBaseIds", "columnKind", "results"},
    "tool": {"driver"},
    "driver": {"name", "version", "semanticVersion", "rules"},
    "rule": {"id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration",
        "properties",
    },
    "invocation": {"executionSuccessful", "exitCode", "arguments"},
    "result": {
        "ruleId", "ruleIndex", "level", "message", "locations", "relatedLocations", "codeFlows",
        "partialFingerprints", "properties",
    },
    "location": {"id", "message", "physicalLocation", "logicalLocations"},
    "physicalLocation": {"artifactLocation", "region"},
    "artifactLocation": {"uri", "uriBaseId"},
    "region": {"startLine", "startColumn", "endLine", "endColumn", "snippet"},
    "codeFlow": {"threadFlows"},
    "threadFlow": {"locations"},
    "step": {"location", "executionOrder", "importance", "kinds", "state"},
    "message": {"text", "markdown"},
}  # fmt: skip
_URI = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=@/-]|%[0-9A-F]{2})+")


def problems(log: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a log; empty for a valid one."""
    found: list[str] = []
    _keys("log", log, found)
    if log.get("version") != "2.1.0":
        found.append(f"version {log.get('version')!r}")
    for run in log.get("runs", []):
        _run(run, found)
    return found


def _keys(kind: str, value: dict[str, Any], found: list[str]) -> None:
    found += [f"{kind} lacks {key}" for key in REQUIRED.get(kind, set()) - set(value)]
    found += [f"{kind} has an unknown {key}" for key in set(value) - KNOWN[kind]]


def _run(run: dict[str, Any], found: list[str]) -> None:
    _keys("run", run, found)
    driver = run.get("tool", {}).get("driver", {})
    _keys("driver", driver, found)
    if run.get("columnKind") not in ("utf16CodeUnits", "unicodeCodePoints"):
        found.append("columnKind")
    for invocation in run.get("invocations", []):
        _keys("invocation", invocation, found)
    rules = driver.get("rules", [])
    for rule in rules:
        _keys("rule", rule, found)
        for key in ("shortDescription", "fullDescription", "help"):
            _keys("message", rule.get(key, {"text": ""}), found)
    bases = run.get("originalUriBaseIds", {})
    found += [f"base {name} does not end in /" for name, at in bases.items() if not at["uri"].endswith("/")]
    for result in run.get("results", []):
        _result(result, rules, bases, found)


def _result(result: dict[str, Any], rules: list[Any], bases: dict[str, Any], found: list[str]) -> None:
    _keys("result", result, found)
    _keys("message", result.get("message", {}), found)
    if result.get("level") not in ("none", "note", "warning", "error"):
        found.append(f"level {result.get('level')!r}")
    index = result.get("ruleIndex", -1)
    if not 0 <= index < len(rules) or rules[index].get("id") != result.get("ruleId"):
        found.append(f"ruleIndex {index} is not {result.get('ruleId')}")
    related = result.get("relatedLocations", [])
    if len({location.get("id") for location in related}) < len(related):
        found.append("two related locations have one id")
    for location in [*result.get("locations", []), *related]:
        _location(location, bases, found)
    for flow in result.get("codeFlows", []):
        _keys("codeFlow", flow, found)
        for thread in flow.get("threadFlows", []):
            _keys("threadFlow", thread, found)
            orders = [step.get("executionOrder") for step in thread.get("locations", [])]
            if orders != sorted(orders) or not orders:
                found.append("steps out of order")
            for step in thread.get("locations", []):
                _keys("step", step, found)
                if step.get("importance") not in ("important", "essential", "unimportant"):
                    found.append("importance")
                _location(step.get("location", {}), bases, found)


def _location(location: dict[str, Any], bases: dict[str, Any], found: list[str]) -> None:
    _keys("location", location, found)
    if (physical := location.get("physicalLocation")) is None:
        return
    _keys("physicalLocation", physical, found)
    artifact = physical.get("artifactLocation", {})
    _keys("artifactLocation", artifact, found)
    uri = artifact.get("uri", "")
    if not _URI.fullmatch(uri.removeprefix("file://")):
        found.append(f"uri {uri!r}")
    if uri.startswith("file:") == ("uriBaseId" in artifact):
        found.append("a path is either absolute or has a base")
    if artifact.get("uriBaseId", next(iter(bases), None)) not in bases:
        found.append("uriBaseId")
    region = physical.get("region", {})
    _keys("region", region, found)
    start = region.get("startLine", 0), region.get("startColumn", 0)
    end = region.get("endLine", 0), region.get("endColumn", 0)
    if min(*start, *end) < 1 or end < start:
        found.append(f"region {start} to {end}")
