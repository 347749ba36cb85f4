"""Findings as JSON, for programs to read; ``schema.json`` in this folder describes it.

The schema is versioned: keys are only ever added, at the end of their object. Lines and columns are 1-based,
in characters; paths are as recorded, not shortened.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..model import VERSION, Finding, Fix, Frame, Need, Report, Save, Site, Write
from ..syntax import file_and_cell
from ._past_counter import through
from ._terminal import RenderOptions

SCHEMA = 1

Object = dict[str, Any]


def to_json(report: Report) -> Object:
    """Return the whole report as plain dicts and lists. Every key is always present; unknown values are None.

    Example:
        >>> to_json(Report("clean"))["findings"]
        []
    """
    return {
        "schema": SCHEMA,
        "unclobber": VERSION,
        "torch": report.torch_version or None,
        "command": list(report.command),
        "exit_code": report.exit_code,
        "outcome": report.outcome,
        "findings": [finding_to_json(finding) for finding in report.findings],
        # `asdict`, where the fields are the keys in their order (test_the_schema_describes_every_key).
        "totals": asdict(report.totals) if report.checked is None else None,
        "notices": list(report.notices),
        "ranks": [asdict(end) for end in report.ranks],
        "processes": [asdict(end) for end in report.processes],
        "suppressed": [
            {**finding_to_json(suppressed.finding), "suppressed_by": suppressed.by}
            for suppressed in report.suppressed
        ],
        "checked": None if report.checked is None else asdict(report.checked),
    }


def to_json_text(report: Report, options: RenderOptions | None = None) -> str:
    return json.dumps(to_json(report), indent=2, ensure_ascii=False)


def finding_to_json(finding: Finding) -> Object:
    """Return one finding as a dict."""
    return {
        **_given(finding, "code name severity message"),
        "saved": _save(finding.saved) if finding.saved else None,
        "writes": [_write(write) for write in finding.writes],
        "needed": _need(finding.needed) if finding.needed else None,
        "harmless": finding.harmless,
        "fixes": [_fix(fix) for fix in finding.fixes],
        "freed": _need(finding.freed) if finding.freed else None,
        **_given(finding, "notes torch_message kept_bytes repaired ranks processes"),
        "made": _save(finding.made) if finding.made else None,
        **_given(finding, "ahead times confidence"),
        "also": [_save(save) for save in finding.also],
    }


def _location(site: Site | None) -> Object:
    # Of None, too: an unknown place has all keys (test_unknown_places_are_null).
    place = _given(site, "path line column end_line end_column function source")
    return place if site is None else {**place, "path": file_and_cell(site.path)[0]}


def _surroundings(site: Site | None) -> Object:
    return {
        "stack": _frames(site.stack if site else ()),
        **_given(site, "statement statement_line statement_end_line"),
        "below": _frames(site.below if site else ()),
    }


def _cell(site: Site | None) -> int | None:
    return None if site is None else file_and_cell(site.path)[1]


def _frames(frames: tuple[Frame, ...]) -> list[Object]:
    return [{"path": f.path, "line": f.line, "function": f.function} for f in frames]


def _save(save: Save) -> Object:
    """Return a save; its place first, the keys that later versions added last.

    What only a run knows of the tensor is None without one.
    """
    is_seen = save.dtype != "unknown"
    return {
        **_location(save.site),
        **_given(save, "expression name operation node role"),
        "shape": list(save.shape) if is_seen else None,
        "dtype": save.dtype if is_seen else None,
        "bytes": save.bytes if is_seen else None,
        "why": save.why,
        **_surroundings(save.site),
        "library": bool(save.site and save.site.library),
        **_given(save, "why_words gradient_of"),
        "version": save.version if is_seen else None,
        **_given(save, "nth of"),
        "cell": _cell(save.site),
    }


def _write(write: Write) -> Object:
    """Return a write; its place first, the keys that later versions added last."""
    return {
        **_location(write.site),
        **_given(write, "expression operation bumps_version overlaps_needed library"),
        **_surroundings(write.site),
        **_given(write, "version_before version_after count optimizer parameters module"),
        "through": through(write),
        "cell": _cell(write.site),
    }


def _need(need: Need) -> Object:
    """Return the place that needs the tensor."""
    return {
        **_location(need.site),
        **_surroundings(need.site),
        "library": bool(need.site and need.site.library),
        **_given(need, "node nth"),
        "cell": _cell(need.site),
    }


def _fix(fix: Fix) -> Object:
    return {
        **_given(fix, "title diff verified code"),
        # Not `asdict`, which leaves out `end_line`, a property.
        "edits": [_given(edit, "path line end_line old new") for edit in fix.edits],
        "proved_by": fix.proved_by,
    }


def _given(fact: object, names: str) -> Object:
    """Return attributes of a fact as JSON has them; None for each if there is no fact."""
    values = {name: None if fact is None else getattr(fact, name) for name in names.split()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
