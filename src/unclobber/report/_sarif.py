"""SARIF 2.1.0, for code scanning and editors: https://docs.oasis-open.org/sarif/sarif/v2.1.0/.

A result's location is the offending line. The other places are its related locations, and all of them, in the
order of events, are its code flow. Paths below the repository's root are relative to ``SRCROOT``. Candidate
edits are its fixes, as whole lines. Results are sorted by their places, so equal runs give equal files.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from ..model import CODES, VERSION, Edit, Finding, Fix, Report, Save, Site, SuppressedBy, Write
from ..syntax import file_and_cell
from . import _repository
from . import _words as words
from ._cells import clean_line
from ._notes import helps, in_lines
from ._ranks import remarks
from ._sources import SourceRange, Sources
from ._terminal import RenderOptions
from .story import FindingPlace, Kind, in_stable_order, offending_place, places

Object = dict[str, Any]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"
HOME = "https://pypi.org/project/unclobber/"
_NOTES = "https://docs.pytorch.org/docs/stable/notes/autograd.html"
_READ_MORE: dict[str, str] = {
    "backward": f"{_NOTES}#in-place-correctness-checks",
    "write": f"{_NOTES}#in-place-operations-with-autograd",
    "graph": f"{_NOTES}#saved-tensors",
}
"""PyTorch's own documentation of the rule that a code stands for, by the stage at which it is broken."""


def to_sarif(report: Report) -> Object:
    """Return the report as one SARIF log with one run.

    Example:
        >>> log = to_sarif(Report("clean"))
        >>> log["version"], log["runs"][0]["results"]
        ('2.1.0', [])
    """
    root = _repository.root()
    every = (*report.findings, *(hidden.finding for hidden in report.suppressed))
    codes = sorted({finding.code for finding in every})
    # By identity, because two findings of a run may be equal.
    suppressed = {id(hidden.finding): hidden.by for hidden in report.suppressed}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "unclobber",
                        "informationUri": HOME,
                        "version": VERSION,
                        "semanticVersion": VERSION,
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "invocations": [_invocation(report)],
                "originalUriBaseIds": {ROOT: {"uri": _uri(root) + "/"}},
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(finding, codes, root, suppressed.get(id(finding)))
                    for finding in in_stable_order(every)
                ],
            }
        ],
    }


def to_sarif_text(report: Report, options: RenderOptions | None = None) -> str:
    return json.dumps(to_sarif(report), indent=2, ensure_ascii=False)


def _rule(code: str) -> Object:
    """Return the SARIF rule of a code."""
    entry = CODES[code]
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in entry.name.split("-")),
        "shortDescription": {"text": entry.name},
        "fullDescription": {"text": entry.meaning},
        "helpUri": _READ_MORE[entry.stage],
        "help": {
            "text": f"{entry.meaning} {entry.advice} More: unclobber explain {code}",
            "markdown": f"{entry.meaning}\n\n{entry.advice}\n\nMore: `unclobber explain {code}`",
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["pytorch", "autograd", "correctness"], "precision": "very-high"},
    }


def _invocation(report: Report) -> Object:
    """Return the SARIF invocation: command, exit code and remarks."""
    # The tool succeeded in every run that has a report; `exitCode` is the program's.
    invocation: Object = {"executionSuccessful": True, "exitCode": report.exit_code}
    if report.command:
        invocation["arguments"] = list(report.command)
    if said := remarks(report):
        invocation["toolExecutionNotifications"] = [
            {"level": "note", "message": {"text": clean_line(text)}} for text in said
        ]
    return invocation


def _result(finding: Finding, codes: list[str], root: str, suppressed: SuppressedBy | None) -> Object:
    """Return the SARIF result of one finding."""
    sources = Sources()
    shown = places(finding, sources)
    main = offending_place(finding, shown)
    result: Object = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": "note" if finding.repaired else finding.severity,
        "message": {"text": in_lines(finding, "Note", "Help")},
        # SARIF forbids invented locations (tests/unit/report/test_report_sarif.py).
        "locations": [] if main is None else [_location(main, sources, root)],
        "partialFingerprints": {"unclobberPlaces/v1": _fingerprint(finding, root)},
        "properties": {"harmless": finding.harmless, "repaired": finding.repaired, **_known(finding)},
    }
    if suppressed is not None:
        kind = "inSource" if suppressed == "comment" else "external"
        result["suppressions"] = [{"kind": kind, "status": "accepted", "justification": _WHY[suppressed]}]
    others = [place for place in shown if place is not main]
    if others:
        result["relatedLocations"] = [
            {"id": i, **_location(place, sources, root)} for i, place in enumerate(others, 1)
        ]
    if shown:
        steps = [_step(i, place, sources, root) for i, place in enumerate(shown, 1)]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    # A notebook's lines are those of its JSON, so an edit of a cell would change others.
    editable = [fix for fix in helps(finding) if all(file_and_cell(e.path)[1] is None for e in fix.edits)]
    if fixes := [_fix(fix, root) for fix in editable if fix.edits]:
        result["fixes"] = fixes
    return result


def _known(finding: Finding) -> Object:
    known: Object = {"confidence": finding.confidence, "ranks": finding.ranks}
    known |= {"processes": finding.processes, "torchMessage": finding.torch_message}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in known.items() if value}


_WHY: dict[SuppressedBy, str] = {
    "comment": "# unclobber: ignore on the line of the write",
    "settings": "left out by the settings of unclobber",
    "baseline": "known in the baseline",
}


def _fix(fix: Fix, root: str) -> Object:
    """Return the SARIF fix: one artifact change for each file."""
    paths = dict.fromkeys(edit.path for edit in fix.edits)
    return {
        "description": {"text": clean_line(words.advice(fix))},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(path, root),
                "replacements": [_replacement(edit) for edit in fix.edits if edit.path == path],
            }
            for path in paths
        ],
    }


def _replacement(edit: Edit) -> Object:
    """Return the SARIF replacement for ``edit``, without the last newline on either side."""
    return {
        "deletedRegion": {
            "startLine": edit.line,
            "startColumn": 1,
            "endLine": edit.end_line,
            "endColumn": len(edit.old.rpartition("\n")[2]) + 1,
        },
        "insertedContent": {"text": edit.new},
    }


def _step(order: int, place: FindingPlace, sources: Sources, root: str) -> Object:
    """Return one step of the code flow."""
    return {
        "location": _location(place, sources, root),
        "executionOrder": order,
        "importance": "essential" if place.primary else "important",
        "kinds": [_KINDS[place.kind]],
        "state": {key: {"text": text} for key, text in _state(place)},
    }


_KINDS: dict[Kind, str] = {
    "made": "acquire", "saved": "acquire", "write": "taint", "freed": "release", "needed": "usage",
}  # fmt: skip


def _state(place: FindingPlace) -> list[tuple[str, str]]:
    """Return the known state of the storage at this step, as (name, value) pairs."""
    fact = place.fact
    if isinstance(fact, Save):
        if fact.dtype == "unknown":
            return []
        return [("tensor", words.tensor(fact.shape, fact.dtype)), ("version", str(fact.version))]
    if isinstance(fact, Write):
        after = fact.version_after
        return [("operation", fact.operation), *([("version", str(after))] if after is not None else [])]
    return [("backward", str(fact.nth)), *([("node", fact.node)] if fact.node else [])]


def _location(place: FindingPlace, sources: Sources, root: str) -> Object:
    """Return the SARIF location of a place; without a file if the code is in none."""
    location: Object = {"message": {"text": clean_line(place.label)}}
    artifact = _artifact(place.site.path, root)
    if artifact is not None:
        location["physicalLocation"] = {"artifactLocation": artifact, "region": _region(place.span, sources)}
    location["logicalLocations"] = [{"fullyQualifiedName": place.site.function, "kind": "function"}]
    if (cell := file_and_cell(place.site.path)[1]) is not None:
        location["properties"] = {"cell": cell}
    return location


def _region(span: SourceRange, sources: Sources) -> Object:
    """Return the SARIF region of a range, with its text if all its lines are known."""
    region: Object = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    # The text is shown where the file can't be opened; half of it would mislead.
    lines = [sources.line(span.path, number) for number in range(span.line, span.end_line + 1)]
    known = [line for line in lines if line is not None]
    if len(known) == len(lines):
        known[-1] = known[-1][: span.end_column - 1]
        known[0] = known[0][span.column - 1 :]
        region["snippet"] = {"text": "\n".join(known)}
    return region


def _artifact(path: str, root: str) -> Object | None:
    """Return the location of a file; None for code that is in no file, such as ``<stdin>``."""
    if not os.path.isabs(path):
        return None
    path, _ = file_and_cell(path)
    relative = _repository.below(path, root)
    if relative is None:
        return {"uri": _uri(path)}
    return {"uri": _quoted(relative), "uriBaseId": ROOT}


def _uri(path: str) -> str:
    from pathlib import PurePath

    posix = PurePath(path).as_posix().rstrip("/")
    return "file://" + _quoted(posix if posix.startswith("/") else f"/{posix}")


def _quoted(path: str) -> str:
    # A relative reference must not look like one with a scheme: `a:b.py` becomes `a%3Ab.py`
    # (tests/unit/report/test_report_sarif.py).
    # Bytes, because `quote` refuses the surrogates of a path that is no UTF-8.
    return quote(os.fsencode(path), safe="/~")


def _fingerprint(finding: Finding, root: str) -> str:
    """Return a fingerprint from files, functions and expressions only, so that it survives moved lines."""

    def of(site: Site | None) -> tuple[str | None, ...]:
        if site is None:
            return ()
        artifact = _artifact(site.path, root) or {"uri": site.path}
        return artifact["uri"], site.function, words.flattened(site.source)

    parts = finding.identity(of)
    import hashlib  # here, because it loads OpenSSL

    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
